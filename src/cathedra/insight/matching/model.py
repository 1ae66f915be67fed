"""The answer of `match`: which devices a selector selects, on which it fails, and which it nearly selects."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.explanation.model import API_VERSION
from cathedra.insight.reading.state import Note

__all__ = ["MatchCondition", "MatchFailure", "NearMiss", "SelectorMatch"]


class MatchCondition(msgspec.Struct, frozen=True, rename="camel"):
    """One of the conditions that ``&&`` joins, by itself."""

    text: str
    met: int
    """Devices on which it is true."""
    unmet: int
    failed: int
    """Devices on which it is an error."""
    alone: int
    """Devices that only this condition keeps out."""


class MatchFailure(msgspec.Struct, frozen=True, rename="camel"):
    """Devices on which the selector fails in the same way."""

    error: str
    devices: tuple[str, ...]


class NearMiss(msgspec.Struct, frozen=True, rename="camel"):
    """Devices that a single condition keeps out, with what they have instead."""

    condition: str
    values: Mapping[str, str]
    """Part of the condition → its value on these devices."""
    devices: tuple[str, ...]
    error: str = ""
    """Why the condition fails; "" where it is false."""


class SelectorMatch(msgspec.Struct, frozen=True, rename="camel"):
    """What a selector says about all devices; devices are named «driver/pool/device»."""

    expression: str
    devices: int
    """How many were asked."""
    matched: tuple[str, ...]
    unmatched: int
    failures: tuple[MatchFailure, ...]
    conditions: tuple[MatchCondition, ...]
    near_misses: tuple[NearMiss, ...]
    cost: int
    """The estimate of the expression's cost; the API server accepts 1,000,000."""
    nodes: Mapping[str, int] = {}
    """Node → how many of its devices match; "" for devices that several nodes can use."""
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> JSONObject:
        """The answer as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "SelectorMatch", **found}
