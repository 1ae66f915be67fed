"""What every object has: metadata, a key, an owner. The few things parts do with objects of any kind.

Structs of different kinds share no base with ``metadata`` (parts of objects are structs too), so code for any kind asks
here.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, cast

from cathedra.api.core.core_v1 import ObjectReference
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.scheme import kind_of
from cathedra.api.struct import KubeStruct, replace

__all__ = ["ObjectKey", "controller_of", "key_of", "metadata_of", "reference_to", "with_metadata"]

T = TypeVar("T", bound=KubeStruct)


class ObjectKey(NamedTuple):
    """Namespace ("" for cluster-scoped kinds) and name; written ``namespace/name``."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def metadata_of(obj: KubeStruct) -> ObjectMeta:
    """The object's metadata."""
    metadata: ObjectMeta = cast(Any, obj).metadata
    return metadata


def with_metadata(obj: T, **changes: Any) -> T:
    """A copy of ``obj`` with some attributes of its metadata changed."""
    return replace(obj, metadata=replace(metadata_of(obj), **changes))


def key_of(obj: KubeStruct) -> ObjectKey:
    """Namespace and name of an object."""
    metadata = metadata_of(obj)
    return ObjectKey(metadata.namespace, metadata.name)


def controller_of(obj: KubeStruct) -> OwnerReference | None:
    """The owner reference with ``controller: true``, if there is one."""
    return next((owner for owner in metadata_of(obj).owner_references if owner.controller), None)


def reference_to(obj: KubeStruct, field_path: str = "") -> ObjectReference:
    """A reference to ``obj`` as events carry it; an `ObjectReference` is returned as it is."""
    if isinstance(obj, ObjectReference):
        return obj
    gvk = kind_of(type(obj))
    metadata = metadata_of(obj)
    return ObjectReference(
        kind=gvk.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=gvk.api_version,
        resource_version=metadata.resource_version,
        field_path=field_path,
    )
