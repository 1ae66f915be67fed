"""Whose the files of a pod's volumes are: the group of its security context, and the user all its containers share."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod

__all__ = ["Owner", "give_to_group", "give_to_user", "owner_of"]

_SET_GROUP: Final = 0o2000


class Owner(msgspec.Struct, frozen=True):
    """User and group that a pod's volumes are for; None: it has said nothing."""

    user: int | None = None
    group: int | None = None


def owner_of(pod: Pod) -> Owner:
    """The group that the pod names for its volumes, and its containers' user if they all have the same."""
    shared = pod.spec.security_context
    users = set()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        own = container.security_context
        said = own.run_as_user if own is not None else None
        users.add(said if said is not None or shared is None else shared.run_as_user)
    user = users.pop() if len(users) == 1 else None
    return Owner(user, shared.fs_group if shared is not None else None)


def give_to_user(file: int, owner: Owner) -> None:
    """Make an open file (a descriptor) the user's, where this process may do that."""
    if owner.user is not None:
        with contextlib.suppress(PermissionError):
            os.fchown(file, owner.user, -1)


def give_to_group(directory: Path, owner: Owner, *, writable: bool) -> None:
    """Make a volume the group's, and what will be made in it: readable, and with ``writable`` writable."""
    if owner.group is None:
        return
    access = 0o660 if writable else 0o440
    for _, _, files, place in os.fwalk(directory):
        for name in (*files, "."):
            with contextlib.suppress(FileNotFoundError, PermissionError):
                _give(name, place, owner.group, access)


def _give(name: str, place: int, group: int, access: int) -> None:
    """Change one entry of the directory ``place``, never what a link leads to: the pod may have made links."""
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISLNK(mode):
            return
        path = f"/proc/self/fd/{descriptor}"  # the very file that was looked at
        os.chown(path, -1, group)
        os.chmod(path, stat.S_IMODE(mode) | access | (0o110 | _SET_GROUP if stat.S_ISDIR(mode) else 0))
    finally:
        os.close(descriptor)
