"""One description of every built-in type: what decoding, patches, protobuf and OpenAPI all need to know of it.

A `TypeInfo` is a Go type of Kubernetes with its fields as they are declared, made once from the wire facts
(`cathedra.api.facts`). `locate` finds the type that a Go name means in a package. Each of the four walkers adds what is
its own: the decoder how values are read, patches how they merge, the codec how they are written, OpenAPI their schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import msgspec

from cathedra.api import facts
from cathedra.api.struct import KubeStruct
from cathedra.releases.fields import is_known

_QUALIFIERS: Final[Mapping[str, tuple[str, ...]]] = {
    "apiv1": ("core/v1",),
    "authenticationv1": ("authentication/v1",),
    "authorizationv1": ("authorization/v1",),
    "batchv1": ("batch/v1",),
    "corev1": ("core/v1",),
    "metav1": ("meta/v1",),
    "schedulingv1alpha3": ("scheduling/v1alpha3",),
    "v1": ("core/v1", "meta/v1", "authentication/v1", "coordination/v1"),
}
"""Names under which Go files import packages, and which packages those are."""


class FieldInfo(msgspec.Struct, frozen=True):
    """A field of a struct."""

    name: str
    """In JSON; of an embedded struct its Go name."""
    go: str
    """The Go type as the package writes it, ``*`` and all."""
    owner: str
    """The struct that declares it."""
    number: int = 0
    """In protobuf; 0 is not on that wire."""
    embedded: bool = False
    """True if it is a struct whose fields stand directly in this one's JSON."""
    required: bool = False
    optional: bool = False
    omitempty: bool = False
    default: str = ""
    """As JSON, or a constant's name."""
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    struct_type: str = ""
    """``atomic`` or ``granular``; it overrides the marker of the type."""
    patch_strategy: str = ""
    patch_merge_key: str = ""

    @property
    def is_pointer(self) -> bool:
        """True if its absence differs from its zero value."""
        return self.go.startswith("*")

    def is_known(self, release: str) -> bool:
        """Return True if a release (as ``1.36``) has it."""
        return is_known(self.owner, self.name, release)


@dataclass(frozen=True, eq=False)
class TypeInfo:
    """A named Go type: a struct with fields, or another name for ``alias``."""

    package: str
    """Package of the facts, as ``core/v1``."""
    name: str
    alias: str = ""
    declared: tuple[FieldInfo, ...] = ()
    """The fields in order of declaration, embedded structs as one each."""

    @cached_property
    def fields(self) -> dict[str, FieldInfo]:
        """JSON name → field, those of embedded structs included."""
        found: dict[str, FieldInfo] = {}
        for one in self.declared:
            if not one.embedded:
                found[one.name] = one
            elif (inner := locate(self.package, one.go)) is not None:
                found |= inner.fields
        return found


@cache
def type_info(package: str, name: str) -> TypeInfo:
    """Return the type of that name.

    Raises:
        KeyError: there is none.
    """
    described = facts.load()[package][name]
    declared = tuple(_field(name, json_name, fact) for json_name, fact in described.get("fields", {}).items())
    return TypeInfo(package, name, described.get("alias", ""), declared)


def _field(owner: str, name: str, fact: Mapping[str, Any]) -> FieldInfo:
    return FieldInfo(
        name=name,
        go=fact["type"],
        owner=owner,
        number=fact.get("pb", 0),
        embedded=bool(fact.get("inline")),
        required=bool(fact.get("required")),
        optional=bool(fact.get("optional")),
        omitempty=bool(fact.get("omitempty")),
        default=fact.get("default", ""),
        list_type=fact.get("listType", ""),
        list_map_keys=tuple(fact.get("listMapKeys", ())),
        map_type=fact.get("mapType", ""),
        struct_type=fact.get("structType", ""),
        patch_strategy=fact.get("patchStrategy", ""),
        patch_merge_key=fact.get("patchMergeKey", ""),
    )


@cache
def locate(package: str, go: str) -> TypeInfo | None:
    """Return the type that a Go name (as ``*metav1.ObjectMeta``) means in a package; None if there are no facts of it.

    Without qualifier it is the package's own, or one that an older version of a group borrows from its v1.
    """
    qualifier, _, name = go.lstrip("*").rpartition(".")
    if qualifier:
        candidates = _QUALIFIERS.get(qualifier, ())
    else:
        group = package.partition("/")[0]
        candidates = (package, f"{group}/v1", f"{group}/v1beta1", "core/v1", "meta/v1")
    known = facts.load()
    return next((type_info(one, name) for one in candidates if name in known.get(one, {})), None)


def info_of(kind: type[KubeStruct]) -> TypeInfo | None:
    """Return the type that a struct stands for; None for one that was made at run time."""
    module = kind.__module__.rpartition(".")[2]
    package = "resource/v1" if module == "resource" else module.replace("_", "/")
    return locate(package, kind.__name__) if package in facts.load() else None


def package_of(api_version: str) -> str:
    """Return the package of the facts that an apiVersion's types are in.

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
