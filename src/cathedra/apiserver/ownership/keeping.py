"""The fields of an object that a patch leaves as they are, so that they need not be read again.

Most patches change one field of a status. The rest is there as an object already, and reading it from its values would
give the same.
"""

from __future__ import annotations

from typing import Any, TypeVar

from cathedra.api.decoding import KINDS_WITH_SCHEMAS
from cathedra.api.struct import KubeStruct, json_names, replace
from cathedra.apiserver.ownership.views import View
from cathedra.apiserver.patches.schema import StructShape
from cathedra.apiserver.request import Call

__all__ = ["kept_fields", "with_kept"]

K = TypeVar("K", bound=KubeStruct)


def kept_fields(call: Call, live: View, after: dict[str, Any]) -> frozenset[str]:
    """The fields of the top level, metadata aside, whose values are the very ones of ``live`` in ``after``."""
    if not isinstance(live.shape, StructShape) or call.gvk.kind in KINDS_WITH_SCHEMAS:
        return frozenset()
    same = (key for key, value in live.value.items() if key != "metadata" and after.get(key) is value)
    return frozenset(key for key in same if live.is_plain(key))


def with_kept(made: K, kept: frozenset[str], live: K) -> K:
    """What was read, beside what is kept of the live object of the same version."""
    if not kept:
        return made
    names = json_names(type(made))
    return replace(made, **{name: getattr(live, name) for name, key in names.items() if key in kept})
