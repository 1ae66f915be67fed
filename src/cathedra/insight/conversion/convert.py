"""`convert`: manifests in, manifests out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from cathedra.allocation.errors import InvalidInput
from cathedra.insight.conversion.deviceplugin import DevicePluginChange
from cathedra.insight.conversion.edits import Unconvertible
from cathedra.insight.conversion.model import Conversion, ConvertedFile
from cathedra.insight.conversion.values import VERSIONS
from cathedra.insight.conversion.versions import VersionChange
from cathedra.insight.manifests.files import Written, written_files

__all__ = ["convert", "convert_device_plugin"]


class _Change(Protocol):
    changes: list[str]
    notes: list[str]

    def rewritten(self, name: str, text: str) -> str: ...


def convert(given: Written, to: str = "v1") -> Conversion:
    """The manifests with every object of resource.k8s.io in version ``to``; the rest stays byte for byte.

    ``given`` is a text, a file or directory, or several; ``Path("-")`` is standard input.

    Raises:
        InvalidInput: there is no such version; a file is not there, is no YAML, or is written in a way that cannot be
            changed without changing more.
        OSError: a file cannot be read.
    """
    if to not in VERSIONS:
        raise InvalidInput(
            f"there is no version {to!r} of resource.k8s.io to convert to; there are {', '.join(VERSIONS)}"
        )
    return _converted(given, VersionChange(to))


def convert_device_plugin(given: Written, resources: Iterable[str] = ()) -> Conversion:
    """The manifests with claims in place of extended resources; by choice of some resources only.

    Raises:
        InvalidInput: a file is not there, is no YAML, or is written in a way that cannot be changed without changing
            more.
        OSError: a file cannot be read.
    """
    return _converted(given, DevicePluginChange(tuple(resources)))


def _converted(given: Written, change: _Change) -> Conversion:
    found = []
    for file in written_files(given):
        try:
            text = change.rewritten(file.name, file.text)
        except Unconvertible as error:
            raise InvalidInput(f"{file.name}: it cannot be converted as it is written: {error}") from error
        found.append(ConvertedFile(file.name, file.mark + text, tuple(change.changes), tuple(change.notes)))
    return Conversion(tuple(found))
