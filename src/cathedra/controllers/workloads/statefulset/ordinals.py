"""The numbers of a stateful set's pods: which there are to be, and which one a pod has by its name."""

from __future__ import annotations

import re
from typing import Final

from cathedra.api.core.apps_v1 import StatefulSet
from cathedra.api.core.core_v1 import Pod

__all__ = ["is_member", "is_wanted", "ordinal_of", "ordinals_of"]

_NAME: Final = re.compile(r"(.*)-([0-9]+)", re.DOTALL)
_LARGEST: Final = 2**31 - 1


def ordinals_of(obj: StatefulSet) -> range:
    """The ordinals that are to have a pod."""
    start = obj.spec.ordinals.start if obj.spec.ordinals else 0
    return range(start, start + (1 if obj.spec.replicas is None else obj.spec.replicas))


def is_wanted(obj: StatefulSet, ordinal: int) -> bool:
    """Whether the set is to have a pod of that number."""
    return ordinal in ordinals_of(obj)


def is_member(obj: StatefulSet, pod: Pod) -> bool:
    """Whether the pod's name is one that the set gives."""
    found = _NAME.fullmatch(pod.metadata.name)
    return found is not None and found[1] == obj.metadata.name


def ordinal_of(obj: StatefulSet, pod: Pod) -> int | None:
    """The number in the pod's name; None if that is not a name of the set's."""
    found = _NAME.fullmatch(pod.metadata.name)
    if found is None or found[1] != obj.metadata.name or len(found[2]) > len(str(_LARGEST)):
        return None
    ordinal = int(found[2])
    return ordinal if ordinal <= _LARGEST else None
