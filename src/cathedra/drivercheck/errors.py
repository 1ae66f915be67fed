"""What can go wrong while a driver is examined.

DriverCheckError     it cannot be examined at all: no driver there, no API server, a wrong option
CheckFailed          it does something else than it must; the verdict of one check, here as on the kit's bench
CheckSkipped         a check needs what is not there; says what
"""

from __future__ import annotations

from cathedra.driver.kit.conformance import CheckFailed, CheckSkipped

__all__ = ["CheckFailed", "CheckSkipped", "DriverCheckError"]


class DriverCheckError(Exception):
    """The examination cannot begin or go on; the text says what to do."""
