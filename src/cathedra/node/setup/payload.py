"""Files that the node writes into a pod's volumes, and keeps as they should be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cathedra.files.atomic import replacement
from cathedra.node.setup.ownership import Owner, give_to_group, give_to_user

__all__ = ["PayloadFile", "write_payload"]


class PayloadFile(msgspec.Struct, frozen=True):
    """One file of a volume; ``path`` is relative to it."""

    path: str
    content: bytes
    mode: int
    private: bool = False
    """Only for the user that the pod's containers run as."""


def write_payload(directory: Path, files: Sequence[PayloadFile], owner: Owner) -> bool:
    """Make ``directory`` hold these files and no others; whether anything had to be done.

    A file is replaced whole: a reader sees the old content or the new, never half of it.

    Raises:
        OSError: it cannot be written.
    """
    wanted = {directory / file.path for file in files}
    surplus = [path for path in directory.rglob("*") if path.is_file() and path not in wanted]
    changed = [file for file in files if not _holds(directory / file.path, file.content)]
    for file in changed:
        _write(directory / file.path, file, owner)
    for path in surplus:
        path.unlink(missing_ok=True)
    if changed:
        give_to_group(directory, owner, writable=False)
    return bool(changed or surplus)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _write(path: Path, file: PayloadFile, owner: Owner) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with replacement(path, mode=0o600) as descriptor:
        with os.fdopen(descriptor, "wb", closefd=False) as out:
            out.write(file.content)
        if file.private:
            give_to_user(descriptor, owner)
        os.fchmod(descriptor, file.mode)
