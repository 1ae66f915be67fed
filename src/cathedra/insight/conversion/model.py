"""The answer of `convert`: the new texts, and what was changed in them."""

from __future__ import annotations

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.explanation.model import API_VERSION

__all__ = ["Conversion", "ConvertedFile"]


class ConvertedFile(msgspec.Struct, frozen=True, rename="camel"):
    """One file, as it is to be."""

    file: str
    text: str
    changes: tuple[str, ...] = ()
    """What is different, object by object; empty if the text is as it was."""
    notes: tuple[str, ...] = ()
    """What could not be known, or stays as it was."""

    @property
    def changed(self) -> bool:
        """Whether anything is different."""
        return bool(self.changes)


class Conversion(msgspec.Struct, frozen=True, rename="camel"):
    """All files, in order."""

    files: tuple[ConvertedFile, ...]

    def to_dict(self) -> JSONObject:
        """The answer as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Conversion", **found}
