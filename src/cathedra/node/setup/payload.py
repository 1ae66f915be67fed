"""Files that the node writes into a pod's volumes: contents, owners, and service account tokens.

Files get the group of the pod's security context, or the user that all its containers share. Tokens are renewed before
they expire.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.core.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from cathedra.api.core.core_v1 import Pod, ServiceAccountTokenProjection
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import SERVICEACCOUNTS
from cathedra.files.atomic import replacement


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


_SET_GROUP: Final = 0o2000


class Owner(msgspec.Struct, frozen=True):
    """User and group of a pod's volumes; None: the pod names none."""

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
        path = f"/proc/self/fd/{descriptor}"  # the file that was checked, even if its name has changed
        os.chown(path, -1, group)
        os.chmod(path, stat.S_IMODE(mode) | access | (0o110 | _SET_GROUP if stat.S_ISDIR(mode) else 0))
    finally:
        os.close(descriptor)


_DEFAULT_SECONDS: Final = 3600
_RENEW_AFTER: Final = 0.8
_LONGEST_USE: Final = 24 * 3600.0
"""A token is renewed after four fifths of its life, and after a day at the latest."""


class _Issued(msgspec.Struct, frozen=True):
    token: str
    renew_at: float


class PodTokens:
    """The tokens of one pod."""

    def __init__(self, client: Client, pod: Pod) -> None:
        metadata = pod.metadata
        self._accounts = client.resource(SERVICEACCOUNTS, metadata.namespace)
        self._account = pod.spec.service_account_name or "default"
        self._bound = BoundObjectReference(kind="Pod", api_version="v1", name=metadata.name, uid=metadata.uid)
        self._issued: dict[tuple[str, int], _Issued] = {}

    async def get(self, wanted: ServiceAccountTokenProjection, now: float) -> str | None:
        """A token that is still good at ``now`` (monotonic seconds); None where the API server issues none.

        Raises:
            StatusError: the API server refuses.
            ConnectionError: it cannot be reached.
        """
        seconds = wanted.expiration_seconds or _DEFAULT_SECONDS
        key = (wanted.audience, seconds)
        known = self._issued.get(key)
        if known is not None and now < known.renew_at:
            return known.token
        request = TokenRequest(
            spec=TokenRequestSpec(
                audiences=(wanted.audience,) if wanted.audience else (),
                expiration_seconds=seconds,
                bound_object_ref=self._bound,
            )
        )
        try:
            issued: TokenRequest = await self._accounts.create_subresource(self._account, "token", request)
        except StatusError as error:
            if error.code in {404, 405}:
                return None
            raise
        granted = issued.spec.expiration_seconds or seconds
        self._issued[key] = _Issued(issued.status.token, now + min(granted * _RENEW_AFTER, _LONGEST_USE))
        return issued.status.token
