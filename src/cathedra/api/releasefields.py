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


# A function per type and release that reads only the fields that can matter: most writes pay one or two microseconds.
@cache
def _fitting(kind: type[KubeStruct], release: str) -> Fit | None:
    """Return the function for objects of a type, or None if the release knows all fields and none is computed."""
    fitting = _struct_fitting(kind, release, frozenset(), computed=False)
    return None if fitting is None else fitting.fit


class _StructFitting(msgspec.Struct, frozen=True):
    """The function for a struct, and the fields that it compares, those of structs in it by their dotted paths."""

    fit: Fit
    absent: list[tuple[str, Any]]
    nested: list[tuple[str, Fit]]


def _struct_fitting(
    kind: type[KubeStruct], release: str, above: frozenset[type[KubeStruct]], *, computed: bool
) -> _StructFitting | None:
    if kind in above:
        return None  # Only JSON schemas contain themselves, and every release knows all of their fields.
    names = json_names(kind)
    absent: list[tuple[str, Any]] = []
    nested: list[tuple[str, Fit]] = []
    all_absent: list[tuple[str, Any]] = []
    all_nested: list[tuple[str, Fit]] = []
    for field in msgspec.structs.fields(kind):
        name, hint, in_status = field.name, field.type, computed or field.name == "status"
        if not is_known(kind.__name__, names[name], release):
            absent.append((name, _default(field)))
            all_absent.append(absent[-1])
        elif isinstance(hint, type) and issubclass(hint, KubeStruct):
            if inner := _struct_fitting(hint, release, above | {kind}, computed=in_status):
                nested.append((name, inner.fit))
                all_absent += [(f"{name}.{path}", default) for path, default in inner.absent]
                all_nested += [(f"{name}.{path}", fit) for path, fit in inner.nested]
        elif (fit := _value_fitting(hint, release, above | {kind}, in_status)) is not None:
            nested.append((name, fit))
            all_nested.append(nested[-1])
    if not absent and not nested:
        return None

    def changed(obj: Any) -> Any:
        kept = {name: fit(value) for name, fit in nested if (value := getattr(obj, name))}
        return replace(obj, **dict(absent), **kept)

    return _StructFitting(_first_pass(all_absent, all_nested, changed), all_absent, all_nested)


def _first_pass(absent: list[tuple[str, Any]], nested: list[tuple[str, Fit]], changed: Fit) -> Fit:
    """Return a function that calls ``changed`` if a field has to change, and returns the object itself otherwise."""
    read_absent, defaults = _reader(absent), [default for _, default in absent]
    read_nested, fits = _reader(nested), [fit for _, fit in nested]

    # Nearly every object is returned as it is. One call reads all fields, those of structs in it as well.
    def fit_parts(obj: Any) -> Any:
        for value, fit in zip(read_nested(obj), fits, strict=False):
            if value and fit(value) is not value:
                return changed(obj)
        return obj

    if not absent:
        return fit_parts

    def fit_struct(obj: Any) -> Any:
        for value, default in zip(read_absent(obj), defaults, strict=False):
            if value is not default and value != default:
                return changed(obj)
        return fit_parts(obj) if nested else obj

    return fit_struct


def _reader(fields: list[tuple[str, Any]]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads fields by their paths into a tuple, which may be longer than the list of fields."""
    paths = [path for path, _ in fields] or ["__class__"]
    return operator.attrgetter(*(paths if len(paths) > 1 else paths * 2))


def _value_fitting(hint: Any, release: str, above: frozenset[type[KubeStruct]], computed: bool) -> Fit | None:
    """Return the function for the values of a field: a quantity, a struct, or a tuple or mapping of these.

    Only a status holds amounts that were ``computed``. Those of a spec were parsed, so they are as they are read.
    """
    if hint is Quantity:
        return _as_read if computed else None
    if isinstance(hint, type) and issubclass(hint, KubeStruct):
        fitting = _struct_fitting(hint, release, above, computed=computed)
        return None if fitting is None else fitting.fit
    made = (_value_fitting(one, release, above, computed) for one in get_args(hint))
    fit = next((one for one in made if one is not None), None)
    if fit is None or get_origin(hint) not in (tuple, dict):
        return fit

    # Values keep their identity if nothing in them changes: updates compare parts by identity.
    def fit_tuple(values: tuple[Any, ...]) -> tuple[Any, ...]:
        for value in values:
            if fit(value) is not value:
                return tuple(map(fit, values))
        return values

    def fit_mapping(values: Mapping[str, Any]) -> Mapping[str, Any]:
        for value in values.values():
            if fit(value) is not value:
                return {key: fit(each) for key, each in values.items()}
        return values

    return fit_mapping if get_origin(hint) is dict else fit_tuple


_as_read: Final = operator.attrgetter("as_read")


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
