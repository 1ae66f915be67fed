"""Tolerations against taints, of nodes and of devices."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from cathedra.api.core.core_v1 import Taint, Toleration
from cathedra.api.resource import DeviceTaint, DeviceToleration

HARD_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
"""Effects that keep pods from a node, or claims from a device; PreferNoSchedule only counts against a node."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LIMIT: Final = 2**63


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return True if a toleration covers a taint of a node.

    An empty effect or key covers all. ``Gt`` and ``Lt`` compare the taint's value with the toleration's as 64-bit
    integers; a value that is none is not covered. Source: ``k8s.io/api/core/v1/toleration.go`` (ToleratesTaint).
    """
    if not concerns_taint(toleration, taint.key, taint.effect):
        return False
    operator = toleration.operator
    if operator in ("", "Equal"):
        return toleration.value == taint.value
    if operator == "Exists":
        return True
    wanted, found = _integer(toleration.value), _integer(taint.value)
    if wanted is None or found is None:
        return False
    if operator == "Gt":
        return found > wanted
    return operator == "Lt" and found < wanted


def concerns_taint(toleration: Toleration, key: str, effect: str) -> bool:
    """Return True if a toleration applies to taints with that key and effect, whatever their value.

    Admission checks nothing else before it adds the default tolerations. Source:
    ``plugin/pkg/admission/defaulttolerationseconds/admission.go``.
    """
    return (not toleration.effect or toleration.effect == effect) and (not toleration.key or toleration.key == key)


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return True if some toleration covers a taint of a node."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def first_untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str] = HARD_EFFECTS
) -> Taint | None:
    """Return the first taint of a node with one of the effects that no toleration covers.

    Source: ``k8s.io/component-helpers/scheduling/corev1/helpers.go`` (FindMatchingUntoleratedTaint).
    """
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint, tolerations):
            return taint
    return None


def tolerates_device_taint(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Return True if a toleration covers a taint of a device. Its duration is not considered.

    Spec: docs/spec/allocation.md §11.3. Source:
    ``k8s.io/dynamic-resource-allocation/resourceclaim/devicetoleration.go``.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return (toleration.value or "") == (taint.value or "")
    return toleration.operator == "Exists"


def first_untolerated_on_device(
    taints: Iterable[DeviceTaint], tolerations: Collection[DeviceToleration]
) -> DeviceTaint | None:
    """Return the first taint that keeps a device from being allocated (docs/spec/allocation.md §11.3)."""
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not any(tolerates_device_taint(one, taint) for one in tolerations):
            return taint
    return None


def _integer(text: str) -> int | None:
    """``text`` as Go's ``strconv.ParseInt`` reads it, None if it does not."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text) if len(text) <= 20 else _LIMIT
    return number if -_LIMIT <= number < _LIMIT else None


def merged_tolerations(first: Iterable[Toleration], second: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """Return all tolerations without those that another one includes; of equal ones the first stays.

    Source: ``pkg/util/tolerations`` (MergeTolerations).
    """
    everything = (*first, *second)
    merged: list[Toleration] = []
    for position, one in enumerate(everything):
        if any(_includes(other, one) for other in merged):
            continue
        if any(other != one and _includes(other, one) for other in everything[position + 1 :]):
            continue
        merged.append(one)
    return tuple(merged)


def _includes(wide: Toleration, narrow: Toleration) -> bool:
    """Return True if ``wide`` tolerates everything that ``narrow`` does."""
    if wide == narrow:
        return True
    if narrow.key != wide.key and (wide.key or wide.operator != "Exists"):
        return False
    if wide.effect and narrow.effect != wide.effect:
        return False
    if wide.effect == "NoExecute" and wide.toleration_seconds is not None:
        seconds = narrow.toleration_seconds
        if seconds is None or seconds > wide.toleration_seconds:
            return False
    if wide.operator in ("", "Equal"):
        return narrow.operator == "Equal" and narrow.value == wide.value
    return wide.operator == "Exists"
