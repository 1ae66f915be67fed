"""Owner references are a set: what is said twice is kept once, with a warning."""

from __future__ import annotations

from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.struct import replace
from cathedra.apiserver.request import Call

__all__ = ["without_duplicate_owners"]


def without_duplicate_owners(call: Call, metadata: ObjectMeta) -> ObjectMeta:
    """The metadata with each reference once; two that differ in anything are two."""
    owners = metadata.owner_references
    if len(owners) < 2 or len({owner.uid for owner in owners}) == len(owners):
        return metadata
    kept: dict[OwnerReference, None] = {}
    repeated: list[str] = []
    for owner in owners:
        if owner in kept:
            repeated.append(owner.uid)
        else:
            kept[owner] = None
    if not repeated:
        return metadata
    call.warnings.append(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
        "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        + ", ".join(repeated)
    )
    return replace(metadata, owner_references=tuple(kept))
