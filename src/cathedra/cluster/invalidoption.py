"""The error of an option that cannot be met."""

from __future__ import annotations

__all__ = ["InvalidOption"]


class InvalidOption(ValueError):
    """An option cannot be met; the text names it and says what would do."""
