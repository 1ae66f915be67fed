"""The types behind the JSON, with Kubernetes' own names for them: what errors speak of and unknown fields are held
to."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from cathedra.api import facts
from cathedra.api.gates import NEWEST
from cathedra.api.scheme import GroupVersionKind

__all__ = ["Form", "Shape", "shape_of"]


class Form(enum.Enum):
    """How a value is read."""

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


@dataclass(slots=True, eq=False)
class Shape:
    """A type: how it is read, its Go name, and what is inside."""

    form: Form
    name: str
    fields: dict[str, Shape] = field(default_factory=dict)
    element: Shape | None = None
    bits: int = 64
    embedded: dict[str, str] = field(default_factory=dict)
    """Fields that belong to a struct embedded in this one, and that struct's name, which error messages mention."""

    @property
    def short(self) -> str:
        """The struct's name without its package."""
        return self.name.rpartition(".")[2]


_SCALARS: Final[Mapping[str, tuple[Form, int]]] = {
    "string": (Form.STRING, 0),
    "bool": (Form.BOOL, 0),
    "int32": (Form.INTEGER, 32),
    "int64": (Form.INTEGER, 64),
    "int": (Form.INTEGER, 64),
    "float64": (Form.FLOAT, 64),
    "byte": (Form.INTEGER, 8),
}
_SPECIAL: Final = {
    "resource.Quantity": Form.QUANTITY,
    "intstr.IntOrString": Form.INT_OR_STRING,
    "runtime.RawExtension": Form.OPAQUE,
    "runtime.Object": Form.OPAQUE,
    "metav1.Time": Form.TIME,
    "v1.Time": Form.TIME,
    "metav1.MicroTime": Form.MICRO_TIME,
    "v1.MicroTime": Form.MICRO_TIME,
    "metav1.Duration": Form.DURATION,
    "v1.Duration": Form.DURATION,
    "metav1.FieldsV1": Form.OPAQUE,
    "v1.FieldsV1": Form.OPAQUE,
}
_META_SPECIAL: Final = {
    "Time": Form.TIME,
    "MicroTime": Form.MICRO_TIME,
    "Duration": Form.DURATION,
    "FieldsV1": Form.OPAQUE,
}
_PLAIN_NAMES: Final = ("types.UID", "types.NodeName")
_ONE_OF_SEVERAL: Final = frozenset(("JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"))
_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "apiv1": ("core/v1",),
    "authenticationv1": ("authentication/v1",),
    "authorizationv1": ("authorization/v1",),
    "batchv1": ("batch/v1",),
    "corev1": ("core/v1",),
    "metav1": ("meta/v1",),
    "schedulingv1alpha3": ("scheduling/v1alpha3",),
    "v1": ("core/v1", "meta/v1", "authentication/v1", "coordination/v1"),
}


def package_of(api_version: str) -> str:
    """The package of the facts that an apiVersion's types are in.

    Raises:
        KeyError: there is none.
    """
    group, _, version = api_version.rpartition("/")
    known = facts.load()
    for name, full in facts.GROUP_NAMES.items():
        if full == group and f"{name}/{version}" in known:
            return f"{name}/{version}"
    package = f"{group}/{version}"
    if package in known:
        return package
    raise KeyError(f"there are no facts of {api_version}")


def shape_of(gvk: GroupVersionKind, release: str = NEWEST) -> Shape:
    """The shape of a kind in a release.

    Raises:
        KeyError: there are no facts of it.
    """
    return _shapes(package_of(gvk.api_version), release).struct(gvk.kind)


@cache
def _shapes(package: str, release: str) -> _Shapes:
    return _Shapes(package, release)


class _Shapes:
    """The shapes of one package."""

    def __init__(self, package: str, release: str) -> None:
        self._package = package
        self._release = release
        self._types = facts.load()[package]
        self._version = package.partition("/")[2]
        self._made: dict[str, Shape] = {}

    def struct(self, name: str) -> Shape:
        """The shape of a named type of this package."""
        if name in self._made:
            return self._made[name]
        described = self._types[name]
        go_name = f"{self._version}.{name}"
        if "alias" in described:
            aliased = self.of(described["alias"])
            shape = Shape(aliased.form, go_name, aliased.fields, aliased.element, aliased.bits)
            if aliased.form is Form.STRUCT:
                shape = aliased
            self._made[name] = shape
            return shape
        shape = Shape(Form.STRUCT, go_name)
        self._made[name] = shape
        for json_name, described_field in described["fields"].items():
            if described_field.get("inline"):
                inner = self.of(described_field["type"].lstrip("*"))
                shape.fields |= inner.fields
                shape.embedded |= dict.fromkeys(inner.fields, inner.short)
            elif facts.is_known(name, json_name, self._release):
                shape.fields[json_name] = self.of(described_field["type"])
        return shape

    def of(self, go: str) -> Shape:
        """The shape of a Go type as this package writes it."""
        go = go.lstrip("*")
        if go in _SCALARS:
            form, bits = _SCALARS[go]
            return Shape(form, go, bits=bits)
        if go in _PLAIN_NAMES:
            return Shape(Form.STRING, go)
        if go in _SPECIAL:
            return Shape(_SPECIAL[go], go.replace("metav1.", "v1."))
        if go in ("[]byte", "[]uint8"):
            return Shape(Form.BYTES, "[]uint8")
        if go.startswith("[]"):
            element = self.of(go[2:])
            return Shape(Form.LIST, f"[]{element.name}", element=element)
        keyed = re.fullmatch(r"map\[([^\]]+)\](.+)", go)
        if keyed:
            element = self.of(keyed[2])
            return Shape(Form.MAP, f"map[{self.of(keyed[1]).name}]{element.name}", element=element)
        return self._named(go)

    def _named(self, go: str) -> Shape:
        qualifier, _, name = go.rpartition(".")
        if not qualifier:
            if self._package == "meta/v1" and name in _META_SPECIAL:
                return Shape(_META_SPECIAL[name], f"v1.{name}")
            if self._package == "apiextensions/v1" and name == "JSON":
                return Shape(Form.OPAQUE, "v1.JSON")
            if self._package == "apiextensions/v1" and name in _ONE_OF_SEVERAL:
                return Shape(Form.ONE_OF_SEVERAL, f"v1.{name}", element=self.struct("JSONSchemaProps"))
            if name in self._types:
                return self.struct(name)
            group = self._package.partition("/")[0]
            candidates: tuple[str, ...] = (f"{group}/v1", f"{group}/v1beta1", "core/v1", "meta/v1")
        else:
            candidates = _PACKAGES.get(qualifier, ())
        known = facts.load()
        for package in candidates:
            if name in known.get(package, {}):
                return _shapes(package, self._release).struct(name)
        # Without facts: kept as it comes.
        return Shape(Form.OPAQUE, go)
