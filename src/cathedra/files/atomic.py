"""Replacing a file in one step, so that a reader, or a restart, finds the old content or the new.

The content goes to a temporary file in the same directory, which is then renamed over the target. A rename alone orders
nothing on disk: after a power failure the new name may show an empty file, or the old one may be back. What must
survive is therefore written with `write_durable`, which syncs the file before the rename and the directory after it.

These functions block. On an event loop use `cathedra.files.durable`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give errors of the block that name no file the name ``path``: those of a descriptor, as for a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def replacement(path: Path, *, mode: int) -> Iterator[int]:
    """Yield a descriptor of the file that takes the place of ``path`` at the end of the block.

    After an exception it is removed. ``mode`` are its permissions, whatever the process' umask; the block may change
    owner or permissions through the descriptor. The directory must exist. Temporary files are ``.NAME.RANDOM.tmp``.

    Raises:
        OSError: the file cannot be made or renamed; ``path`` is as it was.
    """
    # Not the process id: two containers that share a directory may both be process 1.
    temporary = path.parent / f".{path.name}.{os.urandom(6).hex()}.tmp"
    descriptor = os.open(temporary, _NEW, mode)
    try:
        try:
            with naming(path):
                # The mode given to `open` is reduced by the umask.
                os.fchmod(descriptor, mode)
                yield descriptor
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        # Also on cancellation: nothing else ever removes a temporary file, whose name is random.
        temporary.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace ``path``: readers see the old content or the new. After a power failure it may be either, or empty.

    Raises:
        OSError: it cannot be written; ``path`` is as it was.
    """
    with replacement(path, mode=mode) as descriptor:
        _write(descriptor, content)


def write_durable(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace ``path`` as `write_atomic` does; the new content survives a power failure once this returns.

    Raises:
        OSError: it cannot be written. ``path`` holds the old content, or the new if only its directory failed.
    """
    with replacement(path, mode=mode) as descriptor:
        _write(descriptor, content)
        # Before the rename: otherwise the new name could survive a power failure with an empty file.
        os.fsync(descriptor)
    # The rename itself is durable only after the directory is.
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Put the names in ``directory`` on disk: files made, renamed and removed in it before.

    Raises:
        OSError: it cannot be opened or synced.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with naming(directory):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    # A write may be short, for example on a disk that is nearly full.
    while view:
        view = view[os.write(descriptor, view) :]
