"""How long DynamicResources lets things take."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Timeouts"]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; the arguments of the plugin in a scheduler's configuration."""

    filter: float = 10.0
    """For the allocator on one node; 0 is no limit."""
    binding: float = 600.0
    """Until devices' binding conditions must be true."""
