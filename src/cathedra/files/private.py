"""Directories and files for this user alone, also where they existed before with more open permissions.

A data directory holds keys, tokens, Secrets and the volumes made of them. One closed directory at the top already keeps
others out, but only as long as nothing opens it, and a directory may be handed in that was made by hand: so every
part closes what it makes and what it finds (mode 0700 and 0600, the kubelet's own for its root and checkpoints).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

PRIVATE_DIRECTORY: Final = 0o700
PRIVATE_FILE: Final = 0o600
_OTHERS: Final = 0o077


class NotPrivate(OSError):
    """A path that should be this user's alone is another user's, or no directory or file."""


def private_directory(path: Path) -> Path:
    """Make ``path`` and its missing parents for this user alone, or close it if it was there; answers ``path``.

    Parents that were there stay as they are, and so does a directory that many users share (``/tmp``): it is refused.

    Raises:
        NotPrivate: it is another user's, shared, or no directory.
        OSError: it cannot be made or closed.
    """
    missing = [path] if not path.exists() else []
    while missing and not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for directory in reversed(missing):
        directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    return _close(path, os.O_DIRECTORY, PRIVATE_DIRECTORY)


def private_file(path: Path) -> Path:
    """Close ``path`` to others if it is a file that exists, and return it. Devices and pipes stay as they are.

    Raises:
        NotPrivate: it is another user's, or a link.
        OSError: it cannot be closed.
    """
    # ``lexists``: a dangling link must not count as absent, or the file would be made where the link leads.
    if not os.path.lexists(path):
        return path
    return _close(path, os.O_NOFOLLOW, PRIVATE_FILE)


@contextlib.contextmanager
def files_in_memory(*contents: bytes) -> Iterator[list[Path]]:
    """Yield a path for each of ``contents``, which only this process can read, and only within the block.

    OpenSSL reads certificates and keys from files alone. In memory, a key reaches no disk, and a container with a
    read-only root needs no directory for it.
    """
    with contextlib.ExitStack() as stack:
        paths = []
        for content in contents:
            file, path = _memory_file()
            stack.enter_context(file).write(content)
            file.flush()
            paths.append(path)
        yield paths


def _memory_file() -> tuple[IO[bytes], Path]:
    if sys.platform == "linux":
        file = os.fdopen(os.memfd_create("cathedra"), "wb")
        return file, Path(f"/proc/self/fd/{file.fileno()}")
    import tempfile  # start-up time: the container shim uses this module, and needs none

    # For clients on other systems, which have no such files: one that is deleted when it is closed.
    temporary = tempfile.NamedTemporaryFile(prefix="cathedra-")  # noqa: SIM115 - the caller closes it
    return temporary, Path(temporary.name)


def _close(path: Path, kind: int, mode: int) -> Path:
    try:
        # Permissions are changed through the descriptor, so that nothing can be put in the path's place in between.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | kind)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        wanted = "directory" if kind & os.O_DIRECTORY else "file of its own"
        raise NotPrivate(error.errno, f"{path} is no {wanted}; remove it or use another directory") from error
    try:
        found = os.fstat(descriptor)
        # A device, as /dev/null for an audit log, is the machine's: closed to others it would be of no use to them.
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            return path
        # The sticky bit marks a directory that many users share. Closing it would take it away from all of them.
        if found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX:
            raise NotPrivate(
                errno.EPERM,
                f"{path} is shared or belongs to user {found.st_uid}; remove it or use another directory",
            )
        if stat.S_IMODE(found.st_mode) & _OTHERS:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
    return path
