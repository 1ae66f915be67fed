"""Writes that a store compares with the state that they were made from: those of the object that a request names.

A server on a shared store learns of other servers' writes with a delay. The comparison detects a write that was made
from an older state. All other writes need the latest state before they begin.
"""

from __future__ import annotations

from typing import Final

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.subresources.reviews import REVIEWS

__all__ = ["is_compared"]

_BY_OTHER_OBJECTS: Final = frozenset({"eviction", "token"})
"""Sub-resources that depend on another object: a disruption budget, a service account's signing key."""


def is_compared(verb: str, resource: GroupResource, subresource: str = "") -> bool:
    """Return True if a write changes the named object, and does not depend on any other one."""
    return verb != "deletecollection" and subresource not in _BY_OTHER_OBJECTS and resource not in REVIEWS
