"""Qualified CDI device names, ``vendor/class=name``: what drivers return and runtimes resolve.

docs/spec/node.md §19.2. All names are ASCII and case-sensitive.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cathedra.cdi.errors import InvalidName

_KIND_PART: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_DEVICE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?", re.ASCII)


class QualifiedName(NamedTuple):
    """A device by vendor, class and name."""

    vendor: str
    class_: str
    name: str

    @staticmethod
    def parse(text: str) -> QualifiedName:
        """The parts of ``vendor/class=name``.

        Raises:
            InvalidName: the text is not of that form.
        """
        kind, equals, name = text.partition("=")
        vendor, slash, class_ = kind.partition("/")
        if text.startswith("/") or not equals or not slash:
            raise InvalidName(f'unqualified device "{text}", want vendor/class=name')
        validate_kind(kind)
        validate_device_name(name)
        return QualifiedName(vendor, class_, name)

    @property
    def kind(self) -> str:
        """Return the device's kind, ``vendor/class``."""
        return f"{self.vendor}/{self.class_}"

    def __str__(self) -> str:
        return f"{self.vendor}/{self.class_}={self.name}"


def validate_kind(kind: str) -> tuple[str, str]:
    """Vendor and class of ``vendor/class``.

    Raises:
        InvalidName: a part is missing or has a character that it must not have.
    """
    vendor, slash, class_ = kind.partition("/")
    if not slash:
        raise InvalidName(f'invalid kind "{kind}", want vendor/class')
    for what, part in (("vendor", vendor), ("class", class_)):
        if not _KIND_PART.fullmatch(part):
            raise InvalidName(
                f'invalid {what} "{part}" in "{kind}": must begin with a letter, end with a letter or digit, '
                "and hold only letters, digits, '_', '-' and '.' between"
            )
    return vendor, class_


def validate_device_name(name: str) -> None:
    """Check the part behind the equals sign.

    Raises:
        InvalidName: it is empty or has a character that it must not have.
    """
    if not _DEVICE.fullmatch(name):
        raise InvalidName(
            f'invalid device name "{name}": must begin and end with a letter or digit, '
            "and hold only letters, digits, '_', '-', '.' and ':' between"
        )
