"""Columns that most tables begin or end with, and durations as kubectl prints them: «45s», «3m20s», «5h12m»,
«400d» (docs/spec/apimachinery.md §10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.struct import Time
from cathedra.kinds.definition import Column

NAME: Final = Column(name="Name", format="name", description="Name of the object, unique among those of its kind.")
AGE: Final = Column(name="Age", description="How long ago the object was created.")
CREATED_AT: Final = Column(name="Created At", type="date", description="When the object was created.")
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY
GENERIC_COLUMNS: Final = (NAME, CREATED_AT)
NAME_AND_AGE: Final = (NAME, AGE)


def age(moment: Time | None, now: float) -> str:
    """Return the time since ``moment``, or ``<unknown>`` if there is none."""
    if moment is None:
        return "<unknown>"
    return human_duration(now - moment.timestamp)


def first_three(items: Sequence[str]) -> str:
    """Return up to three items, joined by commas, and how many there are besides."""
    shown = ",".join(items[:3])
    return f"{shown} + {len(items) - 3} more..." if len(items) > 3 else shown


def human_duration(seconds: float) -> str:
    """Return a duration in at most two units, coarser the longer it is."""
    whole = int(seconds)
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    minutes = whole // _MINUTE
    if minutes < 10:
        return _two(minutes, "m", whole % _MINUTE, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    hours = whole // _HOUR
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = whole // _DAY
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    years = whole // _YEAR
    if years < 8:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def generic_cells(obj: KubeObject, now: float) -> list[Any]:
    """Return the cells of a kind without a table of its own: name and moment of creation."""
    created = obj.metadata.creation_timestamp
    return [obj.metadata.name, str(created) if created else "<unknown>"]


def name_and_age(obj: KubeObject, now: float) -> list[Any]:
    """Return the cells of the plainest table."""
    return [obj.metadata.name, age(obj.metadata.creation_timestamp, now)]
