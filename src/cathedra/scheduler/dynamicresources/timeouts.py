"""How long DynamicResources lets things take."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["DEFAULT_TIMEOUTS", "Timeouts"]


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds; the arguments of the plugin in a scheduler's configuration."""

    filter: float = 10.0
    """For the allocator on one node; 0 is no limit."""
    binding: float = 600.0
    """Until devices' binding conditions must be true."""


DEFAULT_TIMEOUTS: Final = Timeouts()
