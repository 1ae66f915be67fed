"""Why a body could not be decoded."""

from __future__ import annotations

__all__ = ["DecodeError"]


class DecodeError(ValueError):
    """The body is not what it should be; the text is what Kubernetes says, without naming the object."""
