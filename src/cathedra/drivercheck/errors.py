"""Errors of a driver check.

DriverCheckError     it cannot be examined at all: no driver there, no API server, a wrong option
CheckFailed          it does something else than it must; the verdict of one check, here as on the kit's bench
CheckSkipped         a check needs something that is missing; the text names it
"""

from __future__ import annotations

from cathedra.driver.kit.conformance import CheckFailed, CheckSkipped

__all__ = ["CheckFailed", "CheckSkipped", "DriverCheckError"]


class DriverCheckError(Exception):
    """The check cannot begin or continue; the text names the remedy."""
