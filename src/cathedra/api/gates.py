"""Feature gates: one table (gate, release → default), one value that is passed in.

`FeatureGates` is made once per process from a release and overrides, and handed to whatever depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

__all__ = ["FeatureGates", "UnknownGate"]


class UnknownGate(ValueError):
    """No gate of that name exists, or it cannot be changed."""


class FeatureGates(Mapping[str, bool]):
    """Gate → on or off. Immutable; asking for a gate that does not exist is an error."""

    __slots__ = ("_enabled", "release")

    def __init__(self, enabled: Mapping[str, bool], release: str = "1.37") -> None:
        self._enabled = MappingProxyType(dict(enabled))
        self.release = release

    def __getitem__(self, gate: str) -> bool:
        try:
            return self._enabled[gate]
        except KeyError as error:
            raise UnknownGate(f"unrecognized feature gate: {gate}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._enabled)

    def __len__(self) -> int:
        return len(self._enabled)
