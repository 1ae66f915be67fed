"""Counts of things as people read them."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, thing: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
