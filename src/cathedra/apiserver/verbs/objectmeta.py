"""The metadata that the server itself sets, and that no change takes away (docs/spec/apimachinery.md §4)."""

from __future__ import annotations

import random
from operator import attrgetter
from typing import Final

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import Time, replace
from cathedra.apiserver.names import generate_name, generate_uid

__all__ = ["fresh", "kept", "not_ending"]

_of_server: Final = attrgetter(
    "uid",
    "creation_timestamp",
    "deletion_timestamp",
    "deletion_grace_period_seconds",
    "generation",
    "resource_version",
)


def fresh(metadata: ObjectMeta, now: float, rng: random.Random) -> ObjectMeta:
    """The metadata of a new object: uid and times are the server's alone, and so is a name that is to be made up."""
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


def not_ending(metadata: ObjectMeta) -> ObjectMeta:
    """The metadata as of an object that is not being deleted: an author cannot begin with the end."""
    if metadata.deletion_timestamp is None and metadata.deletion_grace_period_seconds is None:
        return metadata
    return replace(metadata, deletion_timestamp=None, deletion_grace_period_seconds=None)


def kept(new: ObjectMeta, old: ObjectMeta) -> ObjectMeta:
    """The metadata of a changed object: what cannot be changed is as it was."""
    if not new.self_link and _of_server(new) == _of_server(old):
        return new
    return replace(
        new,
        uid=new.uid or old.uid,
        creation_timestamp=old.creation_timestamp,
        deletion_timestamp=old.deletion_timestamp or new.deletion_timestamp,
        deletion_grace_period_seconds=(
            new.deletion_grace_period_seconds
            if old.deletion_grace_period_seconds is None
            else old.deletion_grace_period_seconds
        ),
        generate_name=new.generate_name,
        self_link="",
        generation=old.generation,
        resource_version=old.resource_version,
    )
