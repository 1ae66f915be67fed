"""Taints and who tolerates them (spec: allocation.md, 11.3)."""

from __future__ import annotations

from collections.abc import Iterable

from cathedra.api.resource import DeviceTaint, DeviceToleration

__all__ = ["covers", "first_untolerated"]


def first_untolerated(taints: Iterable[DeviceTaint], tolerations: tuple[DeviceToleration, ...]) -> DeviceTaint | None:
    """The first taint that keeps the device from being used, if there is one."""
    for taint in taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(covers(one, taint) for one in tolerations):
            return taint
    return None


def covers(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether ``toleration`` covers ``taint``; how long it does is no matter of allocation."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return (toleration.value or "") == (taint.value or "")
    return toleration.operator == "Exists"
