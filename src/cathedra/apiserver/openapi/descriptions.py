"""What types and fields mean, in our words: what ``kubectl explain`` shows.

``descriptions.json`` has an entry per type (``""`` is the type itself) and, under ``*``, what fields of that name mean
wherever a type says nothing of its own. A field without a description is shown by its name, split into words.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

__all__ = ["Descriptions"]


class Descriptions:
    """Texts, loaded when the first document is made."""

    def __init__(self) -> None:
        self._texts: dict[str, dict[str, str]] = json.loads(
            (Path(__file__).parent / "descriptions.json").read_text(encoding="utf-8")
        )

    def type(self, name: str, package: str = "") -> str:
        """What a type is; ``package`` (``core/v1``) tells types of the same name apart."""
        return self._entry(name, package).get("") or f"{name} holds the {_words(name)} of an object."

    def field(self, owner: str, field: str, package: str = "") -> str:
        """What a field means."""
        own = self._entry(owner, package).get(field)
        if own is not None:
            return own
        everywhere = self._texts["*"].get(field)
        return everywhere if everywhere is not None else f"The {_words(field)}."

    def _entry(self, name: str, package: str) -> dict[str, str]:
        return self._texts.get(f"{package.partition('/')[0]}.{name}") or self._texts.get(name, {})


def _words(name: str) -> str:
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name) or [name]
    return " ".join(part if part.isupper() and len(part) > 1 else part.lower() for part in parts)
