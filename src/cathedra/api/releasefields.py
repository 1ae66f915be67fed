"""Objects as a release reads them: without the fields that it does not know, and with quantities as they are read.

Over HTTP the decoder drops such fields. Objects that are passed within the process, and those of binary sessions,
are structs of the newest types: a driver that sets a field of 1.37 would store it in a server of 1.36. And a binary
amount of 5000 is sent as ``5000`` and read as a decimal one, which is ``5k``: within the process it would stay binary,
so that consumedCapacity of a claim would depend on where the scheduler runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

from cathedra.api.quantity import Quantity
from cathedra.api.struct import KubeStruct, json_names, replace
from cathedra.releases.fields import is_known

__all__ = ["of_release"]

S = TypeVar("S", bound=KubeStruct)
Fit = Callable[[Any], Any]


def of_release(obj: S, release: str) -> S:
    """Return the object as the release's decoder reads its JSON; the same object if that changes nothing."""
    fit = _fitting(type(obj), release)
    found: S = obj if fit is None else fit(obj)
    return found


# A function per type and release that reads only the fields that can matter: most writes pay a microsecond.
@cache
def _fitting(kind: type[KubeStruct], release: str) -> Fit | None:
    """Return the function for objects of a type, or None if the release knows all fields and none is a quantity."""
    return _struct_fitting(kind, release, frozenset())


def _struct_fitting(kind: type[KubeStruct], release: str, above: frozenset[type[KubeStruct]]) -> Fit | None:
    if kind in above:
        return None  # Only JSON schemas contain themselves, and every release knows all of their fields.
    names = json_names(kind)
    absent: list[tuple[str, Any]] = []
    nested: list[tuple[str, Fit]] = []
    for field in msgspec.structs.fields(kind):
        if not is_known(kind.__name__, names[field.name], release):
            absent.append((field.name, _default(field)))
        elif (fit := _value_fitting(field.type, release, above | {kind})) is not None:
            nested.append((field.name, fit))
    if not absent and not nested:
        return None

    def fit_struct(obj: Any) -> Any:
        changed = {}
        for name, default in absent:
            value = getattr(obj, name)
            if value is not default and value != default:
                changed[name] = default
        for name, fit in nested:
            value = getattr(obj, name)
            if value and (kept := fit(value)) is not value:
                changed[name] = kept
        return replace(obj, **changed) if changed else obj

    return fit_struct


def _value_fitting(hint: Any, release: str, above: frozenset[type[KubeStruct]]) -> Fit | None:
    """Return the function for the values of a field: a quantity, a struct, or a tuple or mapping of these."""
    if hint is Quantity:
        return _as_read
    if isinstance(hint, type) and issubclass(hint, KubeStruct):
        return _struct_fitting(hint, release, above)
    arguments = get_args(hint)
    fit = next((made for one in arguments if (made := _value_fitting(one, release, above)) is not None), None)
    if fit is None or get_origin(hint) not in (tuple, dict):
        return fit

    # Values keep their identity if nothing in them changes: updates compare parts by identity.
    def fit_tuple(values: tuple[Any, ...]) -> tuple[Any, ...]:
        kept = tuple(map(fit, values))
        return values if all(map(operator.is_, kept, values)) else kept

    def fit_mapping(values: Mapping[str, Any]) -> Mapping[str, Any]:
        kept = {key: fit(value) for key, value in values.items()}
        return values if all(kept[key] is value for key, value in values.items()) else kept

    return fit_mapping if get_origin(hint) is dict else fit_tuple


_as_read: Final = operator.attrgetter("as_read")


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
