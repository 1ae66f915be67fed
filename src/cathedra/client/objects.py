"""Keys and references of objects of any kind."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from cathedra.api.core.core_v1 import ObjectReference
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.scheme import GroupVersionKind, kind_of
from cathedra.api.struct import replace

T = TypeVar("T", bound=KubeObject)


class ObjectKey(NamedTuple):
    """Namespace ("" for cluster-scoped kinds) and name; written ``namespace/name``."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def with_metadata(obj: T, **changes: Any) -> T:
    """Return a copy of ``obj`` with some attributes of its metadata changed."""
    return replace(obj, metadata=replace(obj.metadata, **changes))


def key_of(obj: KubeObject) -> ObjectKey:
    """Namespace and name of an object."""
    metadata = obj.metadata
    return ObjectKey(metadata.namespace, metadata.name)


def reference_to(obj: KubeObject, field_path: str = "", gvk: GroupVersionKind | None = None) -> ObjectReference:
    """Return a reference to ``obj`` as events carry it; ``gvk`` is its kind in the server's version, if known."""
    gvk = gvk or kind_of(type(obj))
    metadata = obj.metadata
    return ObjectReference(
        kind=gvk.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=gvk.api_version,
        resource_version=metadata.resource_version,
        field_path=field_path,
    )
