"""A stand-in for transports and clients of which a test changes single calls."""

from __future__ import annotations

from typing import Any


class PassedOn:
    """Passes everything on to ``inner``; subclasses override what they change."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
