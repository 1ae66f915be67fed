"""The types behind the JSON, with Kubernetes' own names for them: what errors speak of and unknown fields are held
to."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

from cathedra.api.scheme import GroupVersionKind
from cathedra.api.typeinfo import locate, package_of, type_info
from cathedra.releases import NEWEST
from cathedra.remembering import remembered


class ValueForm(enum.Enum):
    """The way in which a value is decoded."""

    STRUCT = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()
    STRING = enum.auto()
    BOOL = enum.auto()
    INTEGER = enum.auto()
    FLOAT = enum.auto()
    BYTES = enum.auto()
    QUANTITY = enum.auto()
    TIME = enum.auto()
    MICRO_TIME = enum.auto()
    DURATION = enum.auto()
    INT_OR_STRING = enum.auto()
    OPAQUE = enum.auto()
    ONE_OF_SEVERAL = enum.auto()
    """A schema or something else in its place: a list of schemas, a truth, a list of texts."""


class GoType(msgspec.Struct, eq=False):
    """A type: its reader, its Go name, and the types inside."""

    form: ValueForm
    name: str
    fields: dict[str, GoType] = msgspec.field(default_factory=dict)
    element: GoType | None = None
    bits: int = 64
    embedded: dict[str, str] = msgspec.field(default_factory=dict)
    """Fields that belong to a struct embedded in this one, and that struct's name, which error messages mention."""

    @property
    def short(self) -> str:
        """The struct's name without its package."""
        return self.name.rpartition(".")[2]


_SCALARS: Final[Mapping[str, tuple[ValueForm, int]]] = {
    "string": (ValueForm.STRING, 0),
    "bool": (ValueForm.BOOL, 0),
    "int32": (ValueForm.INTEGER, 32),
    "int64": (ValueForm.INTEGER, 64),
    "int": (ValueForm.INTEGER, 64),
    "float64": (ValueForm.FLOAT, 64),
    "byte": (ValueForm.INTEGER, 8),
}
_SPECIAL: Final = {
    "resource.Quantity": ValueForm.QUANTITY,
    "intstr.IntOrString": ValueForm.INT_OR_STRING,
    "runtime.RawExtension": ValueForm.OPAQUE,
    "runtime.Object": ValueForm.OPAQUE,
    "metav1.Time": ValueForm.TIME,
    "v1.Time": ValueForm.TIME,
    "metav1.MicroTime": ValueForm.MICRO_TIME,
    "v1.MicroTime": ValueForm.MICRO_TIME,
    "metav1.Duration": ValueForm.DURATION,
    "v1.Duration": ValueForm.DURATION,
    "metav1.FieldsV1": ValueForm.OPAQUE,
    "v1.FieldsV1": ValueForm.OPAQUE,
}
_META_SPECIAL: Final = {
    "Time": ValueForm.TIME,
    "MicroTime": ValueForm.MICRO_TIME,
    "Duration": ValueForm.DURATION,
    "FieldsV1": ValueForm.OPAQUE,
}
_PLAIN_NAMES: Final = ("types.UID", "types.NodeName")
_ONE_OF_SEVERAL: Final = frozenset(("JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"))


@remembered("api.decoding.gotypes.go_type_of", size=1024)
def go_type_of(gvk: GroupVersionKind, release: str = NEWEST) -> GoType:
    """Return the type of a kind in a release.

    Raises:
        KeyError: there are no facts of it.
    """
    return _go_types(package_of(gvk.api_version), release).struct(gvk.kind)


@cache
def _go_types(package: str, release: str) -> _GoTypes:
    return _GoTypes(package, release)


class _GoTypes:
    """The types of one package."""

    def __init__(self, package: str, release: str) -> None:
        self._package = package
        self._release = release
        self._version = package.partition("/")[2]
        self._made: dict[str, GoType] = {}

    def struct(self, name: str) -> GoType:
        """Return the type that this package declares as ``name``; each is made once."""
        if name in self._made:
            return self._made[name]
        info = type_info(self._package, name)
        go_name = f"{self._version}.{name}"
        if info.alias:
            aliased = self.of(info.alias)
            made = GoType(aliased.form, go_name, aliased.fields, aliased.element, aliased.bits)
            if aliased.form is ValueForm.STRUCT:
                made = aliased
            self._made[name] = made
            return made
        made = self._made[name] = GoType(ValueForm.STRUCT, go_name)
        for field_info in info.declared:
            if field_info.embedded:
                inner = self.of(field_info.go)
                made.fields |= inner.fields
                made.embedded |= dict.fromkeys(inner.fields, inner.short)
            elif field_info.is_known(self._release):
                made.fields[field_info.name] = self.of(field_info.go)
        return made

    def of(self, go: str) -> GoType:
        """Return the type of a Go type expression, as this package writes it; pointers are ignored."""
        go = go.lstrip("*")
        if go in _SCALARS:
            form, bits = _SCALARS[go]
            return GoType(form, go, bits=bits)
        if go in _PLAIN_NAMES:
            return GoType(ValueForm.STRING, go)
        if go in _SPECIAL:
            return GoType(_SPECIAL[go], go.replace("metav1.", "v1."))
        if go in ("[]byte", "[]uint8"):
            return GoType(ValueForm.BYTES, "[]uint8")
        if go.startswith("[]"):
            element = self.of(go[2:])
            return GoType(ValueForm.LIST, f"[]{element.name}", element=element)
        keyed = re.fullmatch(r"map\[([^\]]+)\](.+)", go)
        if keyed:
            element = self.of(keyed[2])
            return GoType(ValueForm.MAP, f"map[{self.of(keyed[1]).name}]{element.name}", element=element)
        return self._named(go)

    def _named(self, go: str) -> GoType:
        qualifier, _, name = go.rpartition(".")
        if not qualifier:
            if self._package == "meta/v1" and name in _META_SPECIAL:
                return GoType(_META_SPECIAL[name], f"v1.{name}")
            if self._package == "apiextensions/v1" and name == "JSON":
                return GoType(ValueForm.OPAQUE, "v1.JSON")
            if self._package == "apiextensions/v1" and name in _ONE_OF_SEVERAL:
                return GoType(ValueForm.ONE_OF_SEVERAL, f"v1.{name}", element=self.struct("JSONSchemaProps"))
        info = locate(self._package, go)
        if info is None:
            return GoType(ValueForm.OPAQUE, go)  # without facts: kept as it comes
        return _go_types(info.package, self._release).struct(info.name)
