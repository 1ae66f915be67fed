"""The files that were named: single ones, those of directories, standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import read_input

__all__ = ["STDIN", "ManifestFile", "Written", "read_files", "written_files"]

Written: TypeAlias = str | Path | Sequence[str | Path]
"""The text of manifests, a file or directory, or several of these; ``Path("-")`` is standard input."""

STDIN: Final = Path("-")
_SUFFIXES: Final = frozenset((".yaml", ".yml", ".json"))
_BOM: Final = "\ufeff"


class ManifestFile:
    """The text of a file, without a byte order mark, and where its lines begin."""

    def __init__(self, name: str, text: str, path: Path | None = None) -> None:
        self.name, self.path = name, path
        self.mark = _BOM if text.startswith(_BOM) else ""
        """What stood in front of the text."""
        self.text = text.removeprefix(_BOM)
        self.lines = self.text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def place(self, index: int) -> tuple[int, int]:
        """Line and column of a character, both counted from 1."""
        low, high = 0, len(self.lines) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._starts[middle] <= index:
                low = middle
            else:
                high = middle - 1
        return low + 1, index - self._starts[low] + 1

    def line(self, number: int) -> str:
        """A line, counted from 1, without its end; "" beyond the last."""
        return self.lines[number - 1].removesuffix("\r") if 0 < number <= len(self.lines) else ""


def written_files(given: Written) -> Iterator[ManifestFile]:
    """What is given, as files; a text is one named «text».

    Raises:
        InvalidInput: as `read_files`.
        OSError: one cannot be read.
    """
    if isinstance(given, str):
        yield ManifestFile("text", given)
    elif isinstance(given, Path):
        yield from read_files([given])
    else:
        for one in given:
            yield from written_files(one)


def read_files(paths: Iterable[Path]) -> Iterator[ManifestFile]:
    """The files in order; of directories those with manifests in them, at any depth, hidden ones left out.

    Raises:
        InvalidInput: one is not there, holds no manifest (a directory), is no text in UTF-8, or is too long
            (`read_input`).
        OSError: one cannot be read.
    """
    for path in paths:
        if path == STDIN:
            yield _decoded("standard input", read_input(sys.stdin.buffer, "standard input"), None)
            continue
        if not path.exists():
            raise InvalidInput(f"{path}: there is no such file or directory")
        if not path.is_dir():
            yield _read(path)
            continue
        found = [one for one in sorted(path.rglob("*")) if one.suffix in _SUFFIXES and one.is_file()]
        found = [one for one in found if not any(part.startswith(".") for part in one.relative_to(path).parts)]
        if not found:
            raise InvalidInput(f"{path}: there are no manifests ({', '.join(sorted(_SUFFIXES))}) in it")
        yield from map(_read, found)


def _read(path: Path) -> ManifestFile:
    with path.open("rb") as stream:
        return _decoded(str(path), read_input(stream, str(path)), path)


def _decoded(name: str, body: bytes, path: Path | None) -> ManifestFile:
    try:
        return ManifestFile(name, body.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name}: it is no text in UTF-8 (byte {error.start})") from error
