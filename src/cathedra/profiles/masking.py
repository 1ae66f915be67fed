"""Takes what identifies a machine out of texts, so that a profile of a real node can be given away.

What was equal stays equal and what differed still differs; so selectors and constraints give the same answers. Equal
input gives equal output. Masked are names of nodes, UUIDs, serial numbers, PCI addresses and roots, MAC and IPv4
addresses, and values of attributes that are called host names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cathedra.profiles.expansion import escaped

__all__ = ["Masking"]

_PARTS: Final = (
    ("uuid", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    ("address", r"\b[0-9a-f]{4,8}[:-][0-9a-f]{2}[:-][0-9a-f]{2}[.-][0-7]\b"),
    ("root", r"\bpci[0-9a-f]{4}:[0-9a-f]{2}\b"),
    ("mac", r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b"),
    ("ip", r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),
)
_SERIAL: Final = re.compile("serial", re.IGNORECASE)
_HOST: Final = re.compile("host-?name", re.IGNORECASE)
_BUSES: Final = 255


class Masking:
    """Masks the texts of one node; one value for all of them, so that equal texts become equal ones."""

    def __init__(self, node: str, others: Iterable[str] = ()) -> None:
        """``node``: the name that becomes the placeholder ``{node}``; ``others``: names of other nodes."""
        self._node = node
        self._seen: dict[str, dict[str, int]] = {}
        names = sorted({node, *others} - {""}, key=lambda name: (-len(name), name))
        known = "|".join(rf"(?<![\w.-]){re.escape(name)}(?![\w-])" for name in names)
        parts = [f"(?P<name>{known})"] if known else []
        self._pattern = re.compile("|".join((*parts, *(f"(?P<{kind}>{form})" for kind, form in _PARTS))), re.IGNORECASE)

    def attribute(self, name: str, value: str) -> str:
        """The template of an attribute's value."""
        if _SERIAL.search(name):
            return f"{{serial:{self._number('serial', value)}}}"
        if _HOST.search(name) and value != self._node:
            return f"host-{self._number('host', value)}"
        return self.text(value)

    def text(self, text: str) -> str:
        """The template of any other text, as a device's name."""
        made, end = "", 0
        for found in self._pattern.finditer(text):
            made += escaped(text[end : found.start()]) + self._masked(found)
            end = found.end()
        return made + escaped(text[end:])

    def _masked(self, found: re.Match[str]) -> str:
        kind, text = str(found.lastgroup), found[0].lower()
        if kind == "name":
            return "{node}" if text == self._node.lower() else f"node-{self._number('name', text)}"
        if kind == "address":
            # Domain and bus are the machine's; device and function tell what is on one card.
            slot = re.split("[:.-]", text)
            bus = self._number("bus", ":".join(slot[:2]))
            mask = f"0000:{bus % _BUSES:02x}:{slot[2]}.{slot[3]}"
            return mask if ":" in text else re.sub("[:.]", "-", mask)
        number = self._number(kind, text)
        if kind == "uuid":
            return f"{{uuid:{number}}}"
        if kind == "root":
            return f"pci0000:{number % _BUSES:02x}"
        if kind == "mac":
            return f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"
        return f"192.0.2.{number % _BUSES}"

    def _number(self, kind: str, text: str) -> int:
        """Which different text of its kind this is, from 1."""
        seen = self._seen.setdefault(kind, {})
        return seen.setdefault(text, len(seen) + 1)
