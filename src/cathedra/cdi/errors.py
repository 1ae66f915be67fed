"""Errors of CDI names, documents and edits.

CDIError
├── InvalidName          a name is not vendor/class=name
├── InvalidSpec          a document breaks a rule; its devices do not exist
├── UnresolvableDevices  names that no valid document defines
└── InjectionFailed      an edit cannot be made on this host
"""

from __future__ import annotations

from collections.abc import Iterable


class CDIError(Exception):
    """Base of everything that this package raises."""


class InvalidName(CDIError, ValueError):
    """A name is not of the form vendor/class=name."""


class InvalidSpec(CDIError, ValueError):
    """A document breaks a rule of the format."""


class UnresolvableDevices(CDIError, LookupError):
    """Names that are not defined, or defined twice; ``names`` has them all."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"unresolvable CDI devices {', '.join(self.names)}")


class InjectionFailed(CDIError):
    """An edit cannot be made here, for example because a device node is missing on the host."""
