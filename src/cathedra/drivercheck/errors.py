"""What can go wrong while a driver is examined.

DriverCheckError     it cannot be examined at all: no driver there, no API server, a wrong option
CheckFailed          it does something else than it must; the verdict of one check
CheckSkipped         a check needs what is not there; says what
"""

from __future__ import annotations

__all__ = ["CheckFailed", "CheckSkipped", "DriverCheckError"]


class DriverCheckError(Exception):
    """The examination cannot begin or go on; the text says what to do."""


class CheckFailed(Exception):
    """The driver does not do what it must; the text says what it does instead."""


class CheckSkipped(Exception):
    """The check needs something that is not there; the text says what."""
