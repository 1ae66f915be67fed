"""Owner references: the controller of an object, and the reference to it.

Source: apimachinery ``pkg/apis/meta/v1/controller_ref.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cathedra.api.core.meta_v1 import KubeObject, OwnerReference
from cathedra.api.scheme import kind_of

BY_OWNER: Final = "owner-uid"
"""Name of the index by the UIDs of owners. Parts that share an informer share the index."""


def controller_of(obj: KubeObject) -> OwnerReference | None:
    """Return the owner reference with ``controller: true``, if there is one; the first, should there be several."""
    for owner in obj.metadata.owner_references:
        if owner.controller:
            return owner
    return None


def is_controlled_by(obj: KubeObject, owner: KubeObject) -> bool:
    """Return True if ``owner`` is the controller of ``obj``; the UID alone decides."""
    controller = controller_of(obj)
    return controller is not None and controller.uid == owner.metadata.uid


def controller_uid(obj: KubeObject) -> Iterator[str]:
    """Yield the UID of the object's controller, as an index function: nothing for an object without one."""
    controller = controller_of(obj)
    if controller is not None:
        yield controller.uid


def owner_uids(obj: KubeObject) -> Sequence[str]:
    """Return the UIDs of all owners, as the index function of `BY_OWNER`."""
    owners = obj.metadata.owner_references
    return [owner.uid for owner in owners] if owners else ()


def same_owners(old: KubeObject, new: KubeObject) -> bool:
    """Return True if two states of an object have the same object as their owner references, so that indexes by owner
    keep it."""
    return old.metadata.owner_references is new.metadata.owner_references


def controller_reference(owner: KubeObject, *, block_owner_deletion: bool | None = True) -> OwnerReference:
    """Return the reference that makes ``owner`` the controller of what carries it, and lets foreground deletion wait by
    default."""
    gvk, metadata = kind_of(type(owner)), owner.metadata
    return OwnerReference(
        api_version=gvk.api_version,
        kind=gvk.kind,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=block_owner_deletion,
    )
