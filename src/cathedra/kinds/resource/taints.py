"""Taints of devices, in slices and in taint rules."""

from __future__ import annotations

from typing import Final

from cathedra.api import formats, resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.api.struct import Time, replace
from cathedra.releases import FeatureGates, behaviours

__all__ = ["dated_taint", "validate_taint"]

EFFECTS: Final = ("NoExecute", "NoSchedule", "None")


def dated_taint(taint: resource.DeviceTaint, now: float) -> resource.DeviceTaint:
    """The taint with the time at which it was added; ``now`` where it says none (epoch seconds)."""
    return taint if taint.time_added is not None else replace(taint, time_added=Time(now))


def validate_taint(
    errors: ErrorList,
    path: FieldPath,
    taint: resource.DeviceTaint,
    gates: FeatureGates,
    *,
    old: resource.DeviceTaint | None = None,
) -> None:
    """A taint; an effect that is stored already is left alone."""
    effects = EFFECTS if gates.has(behaviours.TAINT_EFFECT_NONE) else EFFECTS[:2]
    check(errors, path.child("key"), taint.key, formats.label_key)
    check(errors, path.child("value"), taint.value, formats.label_value)
    if old is not None and old.effect == taint.effect:
        return
    if not taint.effect:
        errors.required(path.child("effect"))
    elif taint.effect not in effects:
        errors.not_supported(path.child("effect"), taint.effect, effects)
