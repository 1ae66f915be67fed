"""The metadata that the server sets and that no change takes away (docs/spec/apimachinery.md §4), and the
deduplication of owner references."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.struct import Time, replace
from cathedra.apiserver.names import generate_name, generate_uid
from cathedra.apiserver.request import Call


def fresh(metadata: ObjectMeta, now: float, rng: random.Random) -> ObjectMeta:
    """Return the metadata of a new object. Only the server sets UID and times, and a generated name."""
    uid = generate_uid(rng)
    name = metadata.name
    if not name and metadata.generate_name:
        name = generate_name(metadata.generate_name, rng)
    return replace(
        metadata,
        name=name,
        uid=uid,
        creation_timestamp=Time(now),
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
        self_link="",
    )


def kept(new: ObjectMeta, old: ObjectMeta) -> ObjectMeta:
    """Return the metadata of a changed object, with the fields that cannot change as they were."""
    # Fast path: nearly every change leaves these fields alone, and then the metadata stays the same object.
    # Nearly always the creation time is the same object, and its comparison would be a call.
    if (
        new.uid == old.uid
        and (new.creation_timestamp is old.creation_timestamp or new.creation_timestamp == old.creation_timestamp)
        and new.deletion_timestamp == old.deletion_timestamp
        and new.deletion_grace_period_seconds == old.deletion_grace_period_seconds
        and new.generation == old.generation
        and new.resource_version == old.resource_version
        and not new.self_link
    ):
        return new
    return replace(new, self_link="", **{name: of(new, old) for name, of in _OF_SERVER.items()})


def _grace(new: ObjectMeta, old: ObjectMeta) -> int | None:
    before = old.deletion_grace_period_seconds
    return new.deletion_grace_period_seconds if before is None else before


_OF_SERVER: Final[Mapping[str, Callable[[ObjectMeta, ObjectMeta], object]]] = {
    "uid": lambda new, old: new.uid or old.uid,
    "creation_timestamp": lambda _, old: old.creation_timestamp,
    "deletion_timestamp": lambda new, old: old.deletion_timestamp or new.deletion_timestamp,
    "deletion_grace_period_seconds": _grace,
    "generation": lambda _, old: old.generation,
    "resource_version": lambda _, old: old.resource_version,
}
"""The value after a change of each field that the server sets, by new and old metadata. Where both are equal it is
that value, and nothing has to be replaced.
"""


def without_duplicate_owners(call: Call, metadata: ObjectMeta) -> ObjectMeta:
    """Return the metadata with each owner reference once; references that differ in any field are two."""
    owners = metadata.owner_references
    # References with different UIDs cannot be equal.
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
