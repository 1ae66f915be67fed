"""Owner references are a set: what is said twice is kept once, with a warning."""

from __future__ import annotations

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.apiserver.request import Call

__all__ = ["without_duplicate_owners"]


def without_duplicate_owners(call: Call, metadata: ObjectMeta) -> ObjectMeta:
    """The metadata with each owner once."""
    if len(metadata.owner_references) < 2:
        return metadata
    owners = {owner.uid: owner for owner in reversed(metadata.owner_references)}
    if len(owners) == len(metadata.owner_references):
        return metadata
    uids = [owner.uid for owner in metadata.owner_references]
    repeated = sorted({uid for uid in uids if uids.count(uid) > 1})
    call.warnings.append(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
        "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        + ", ".join(repeated)
    )
    return replace(metadata, owner_references=tuple(owners[uid] for uid in dict.fromkeys(uids)))
