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
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import KubeStruct, json_names, replace
from cathedra.releases.fields import is_known
from cathedra.remembering import IDENTITY, remembered

_COMPUTED_SPECS: Final = frozenset({ResourceSlice, ResourceClaim, ResourceClaimTemplate})
"""Kinds whose specs may hold amounts that a program has computed."""
S = TypeVar("S", bound=KubeStruct)
Fit = Callable[[Any], Any]


def of_release(obj: S, release: str) -> S:
    """Return the object as the release's decoder reads its JSON; the same object if that changes nothing."""
    found: S = readers(release)[type(obj)](obj)
    return found


@cache
def readers(release: str) -> Mapping[type[KubeStruct], Fit]:
    """Return the functions of `of_release` for a release by the type of the object."""
    return _ReleaseReaders(release)


def without_unknown_fields(obj: S, release: str) -> S:
    """Return a parsed object without the fields that the release does not know; the same object if it has none.

    Its quantities were read from texts, so they stay as they are.
    """
    found: S = _fitting(type(obj), release, None)(obj)
    return found


class _ReleaseReaders(dict[type[KubeStruct], Fit]):
    """Functions by type. Each is made when an object of its type is read for the first time."""

    def __init__(self, release: str) -> None:
        super().__init__()
        self._release = release

    def __missing__(self, kind: type[KubeStruct]) -> Fit:
        fit = self[kind] = _fitting(kind, self._release, _as_read)
        return fit


# A function per type and release that reads only the fields that can matter: most writes pay one or two microseconds.
@cache
def _fitting(kind: type[KubeStruct], release: str, of_computed: Fit | None) -> Fit:
    """Return the function for objects of a type."""
    # Drivers compute the capacity that they publish, and programs the requests of their claims. In specs of other kinds
    # amounts were parsed, and checking each of them would cost every write of a pod.
    fitting = _Fittings(release, of_computed).of_struct(kind, computed=kind in _COMPUTED_SPECS)
    return _same if fitting is None else fitting.fit


def _same(obj: Any) -> Any:
    return obj


class _StructFitting(msgspec.Struct, frozen=True):
    """The function for a struct, and the fields that it compares, those of structs in it by their dotted paths."""

    fit: Fit
    absent: list[tuple[str, Any]]
    nested: list[tuple[str, Fit]]


class _Fittings:
    """The functions for the structs within one kind, each made once: a pod has its containers in three lists."""

    def __init__(self, release: str, of_computed: Fit | None) -> None:
        """``of_computed`` is the function for computed quantities; None if none of them can change."""
        self._release = release
        self._of_computed = of_computed
        self._made: dict[tuple[type[KubeStruct], bool], _StructFitting | None] = {}

    def of_struct(self, kind: type[KubeStruct], *, computed: bool) -> _StructFitting | None:
        """Return the function for a struct; None if it changes nothing. Only a status holds ``computed`` amounts."""
        key = kind, computed
        if key not in self._made:
            # Only JSON schemas contain themselves, and every release knows all of their fields.
            self._made[key] = None
            self._made[key] = self._struct_fitting(kind, computed=computed)
        return self._made[key]

    def _struct_fitting(self, kind: type[KubeStruct], *, computed: bool) -> _StructFitting | None:
        names = json_names(kind)
        absent: list[tuple[str, Any]] = []
        nested: list[tuple[str, Fit]] = []
        all_absent: list[tuple[str, Any]] = []
        all_nested: list[tuple[str, Fit]] = []
        for field in msgspec.structs.fields(kind):
            name, hint, in_status = field.name, field.type, computed or field.name == "status"
            if not is_known(kind.__name__, names[name], self._release):
                absent.append((name, _default(field)))
                all_absent.append(absent[-1])
            elif isinstance(hint, type) and issubclass(hint, KubeStruct):
                if inner := self.of_struct(hint, computed=in_status):
                    nested.append((name, inner.fit))
                    all_absent += [(f"{name}.{path}", default) for path, default in inner.absent]
                    # A claim shares its spec with its earlier states, and mostly with all claims of a template.
                    is_shared = kind is ResourceClaim and name == "spec"
                    all_nested += [(f"{name}.{path}", _fitted(fit) if is_shared else fit) for path, fit in inner.nested]
            elif (fit := self._value_fitting(hint, in_status)) is not None:
                nested.append((name, fit))
                all_nested.append(nested[-1])
        if not absent and not nested:
            return None

        def changed(obj: Any) -> Any:
            kept = {name: fit(value) for name, fit in nested if (value := getattr(obj, name))}
            return replace(obj, **dict(absent), **kept)

        return _StructFitting(_first_pass(all_absent, all_nested, changed), all_absent, all_nested)

    def _value_fitting(self, hint: Any, computed: bool) -> Fit | None:
        """Return the function for the values of a field: a quantity, a struct, or a tuple or mapping of these.

        Only a status holds amounts that were ``computed``. Those of a spec were parsed, so they are as they are read.
        """
        if hint is Quantity:
            return self._of_computed if computed else None
        if isinstance(hint, type):
            fitting = self.of_struct(hint, computed=computed) if issubclass(hint, KubeStruct) else None
            return None if fitting is None else fitting.fit
        made = (self._value_fitting(one, computed) for one in get_args(hint))
        fit = next((one for one in made if one is not None), None)
        if fit is None or get_origin(hint) not in (tuple, dict):
            return fit
        return _of_values(fit) if get_origin(hint) is dict else _of_elements(fit)


# Values keep their identity if nothing in them changes: updates compare parts by identity.
def _of_elements(fit: Fit) -> Fit:
    def fit_tuple(values: tuple[Any, ...]) -> tuple[Any, ...]:
        for value in values:
            if fit(value) is not value:
                return tuple(map(fit, values))
        return values

    return fit_tuple


def _of_values(fit: Fit) -> Fit:
    def fit_mapping(values: Mapping[str, Any]) -> Mapping[str, Any]:
        for value in values.values():
            if fit(value) is not value:
                return {key: fit(each) for key, each in values.items()}
        return values

    return fit_mapping


_fitted: Final = remembered("api.releasefields.fitted", key=IDENTITY, size=256)
"""Return a function for values that many objects share, which remembers its results."""


def _first_pass(absent: list[tuple[str, Any]], nested: list[tuple[str, Fit]], changed: Fit) -> Fit:
    """Return a function that calls ``changed`` if a field has to change, and returns the object itself otherwise."""
    fit_parts = _first_pass_of_parts(nested, changed) if nested else _same
    if not absent:
        return fit_parts
    read = operator.attrgetter(*[path for path, _ in absent])
    defaults = tuple([default for _, default in absent]) if len(absent) > 1 else absent[0][1]

    def fit_struct(obj: Any) -> Any:
        return changed(obj) if read(obj) != defaults else fit_parts(obj)

    return fit_struct


def _first_pass_of_parts(nested: list[tuple[str, Fit]], changed: Fit) -> Fit:
    """Return `_first_pass` of a struct without fields that have to be absent."""
    read, fits = operator.attrgetter(*[path for path, _ in nested]), [fit for _, fit in nested]

    # Nearly every object is returned as it is. One call reads all fields, those of structs in it as well.
    def fit_parts(obj: Any) -> Any:
        for value, fit in zip(read(obj), fits):  # noqa: B905  # a keyword costs as much as a part
            if value and fit(value) is not value:
                return changed(obj)
        return obj

    def fit_part(obj: Any) -> Any:
        value = read(obj)
        return changed(obj) if value and fits[0](value) is not value else obj

    return fit_parts if len(nested) > 1 else fit_part


_as_read: Final = operator.attrgetter("as_read")


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
