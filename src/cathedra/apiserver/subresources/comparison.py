"""Which writes a store compares with the state that they were made from: those of the object that a request names.

At a server that hears of others' writes a moment later, the comparison finds out whether such a write was made from an
older state. The other writes need the latest state from the beginning.
"""

from __future__ import annotations

from typing import Final

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.subresources.reviews import REVIEWS

__all__ = ["is_compared"]

_BY_OTHER_OBJECTS: Final = frozenset({"eviction", "token"})
"""What a budget allows, and what is signed for an account."""


def is_compared(verb: str, resource: GroupResource, subresource: str = "") -> bool:
    """Whether a write is one of the object that is named, and not of all that are there, of another one, or of none."""
    return verb != "deletecollection" and subresource not in _BY_OTHER_OBJECTS and resource not in REVIEWS
