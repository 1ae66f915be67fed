"""The file operations of preparing, as an object that is passed in.

On a node they are the file system's. In a simulation with thousands of nodes they are a dictionary, and a test can let
one of them fail (docs/spec/driver-sdk.md §2, MetadataFileOps).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

from cathedra.files.atomic import write_atomic
from cathedra.files.durable import DurableFile


class Files(Protocol):
    """Small files, replaced as a whole."""

    def read(self, path: Path) -> bytes | None:
        """Return the content, or None if there is no such file."""

    def write(self, path: Path, content: bytes) -> None:
        """Replace the file in one step; missing directories are made."""

    async def write_durably(self, path: Path, content: bytes) -> None:
        """As `write`, and the content survives a power failure once this returns; the event loop continues
        meanwhile."""

    def remove(self, path: Path) -> None:
        """Remove the file; no matter if there is none."""

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all it holds; no matter if there is none."""

    def names(self, directory: Path) -> tuple[str, ...]:
        """Return the names in a directory, sorted; none if there is no such directory."""


class DiskFiles:
    """The file system. Files have mode 0644 and directories 0755, because container runtimes read them too."""

    def __init__(self) -> None:
        self._durable: dict[Path, DurableFile] = {}

    def read(self, path: Path) -> bytes | None:
        """Return the content, or None if there is no such file."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: Path, content: bytes) -> None:
        """Write beside the file and rename, so that a reader sees the old content or the new."""
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_atomic(path, content, mode=0o644)

    async def write_durably(self, path: Path, content: bytes) -> None:
        """As `write`, with the content on disk before the rename, and the rename before the return."""
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        await self._durable.setdefault(path, DurableFile(path, mode=0o644)).write(content)

    def remove(self, path: Path) -> None:
        """Remove the file; no matter if there is none."""
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all it holds; no matter if there is none."""
        for root, directories, files in os.walk(path, topdown=False):
            for name in files:
                os.unlink(os.path.join(root, name))
            for name in directories:
                os.rmdir(os.path.join(root, name))
        with contextlib.suppress(FileNotFoundError):
            path.rmdir()

    def names(self, directory: Path) -> tuple[str, ...]:
        """Return the names in a directory, sorted; none if there is no such directory."""
        try:
            return tuple(sorted(os.listdir(directory)))
        except FileNotFoundError:
            return ()


class MemoryFiles:
    """Files that live as long as the object: for simulated nodes and for tests."""

    def __init__(self) -> None:
        self.contents: dict[Path, bytes] = {}

    def read(self, path: Path) -> bytes | None:
        """Return the content, or None if there is no such file."""
        return self.contents.get(path)

    def write(self, path: Path, content: bytes) -> None:
        """Replace the content of the file."""
        self.contents[path] = content

    async def write_durably(self, path: Path, content: bytes) -> None:
        """Replace the file; nothing here survives the process."""
        self.contents[path] = content

    def remove(self, path: Path) -> None:
        """Remove the file; no matter if there is none."""
        self.contents.pop(path, None)

    def remove_tree(self, path: Path) -> None:
        """Remove everything below ``path``."""
        for known in self._below(path):
            del self.contents[known]

    def names(self, directory: Path) -> tuple[str, ...]:
        """Return the names in a directory, sorted; none if nothing is below it."""
        depth = len(directory.parts)
        return tuple(sorted({known.parts[depth] for known in self._below(directory)}))

    def _below(self, directory: Path) -> list[Path]:
        # Compared as text: a simulation with many nodes calls this often, and comparing paths part by part is slow.
        prefix = f"{directory}{os.sep}"
        return [known for known in self.contents if str(known).startswith(prefix)]
