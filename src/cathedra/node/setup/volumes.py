"""A pod's volumes as directories of the node: made before the first container, removed after the last.

Known are emptyDir (with the medium ``Memory`` as a tmpfs of a size), hostPath, configMap, secret, downwardAPI and
projected (with service account tokens). What the node writes itself is kept up to date while the pod runs.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.core.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from cathedra.api.core.core_v1 import (
    Container,
    DownwardAPIVolumeFile,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    KeyToPath,
    Pod,
    ProjectedVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
)
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import SERVICEACCOUNTS
from cathedra.clock import Clock
from cathedra.files.atomic import replacement
from cathedra.node.resources import NodeFacts
from cathedra.node.setup.directories import EMPTY_DIR, PodDirectories
from cathedra.node.setup.references import ContainerConfigError, References, VolumeError, field_value, resource_value
from cathedra.node.shim.kernel import mount_tmpfs

_DEFAULT_MODE: Final = 0o644
_TOKEN_MODE: Final = 0o600


class VolumeMaker:
    """Makes the volumes of one pod."""

    def __init__(
        self,
        client: Client,
        pod: Pod,
        directories: PodDirectories,
        node: NodeFacts,
        clock: Clock,
        *,
        memory: bool = False,
    ) -> None:
        """``memory``: whether volumes can be in memory here; else they are on disk."""
        self._memory = memory
        self._client = client
        self._pod = pod
        self._directories = directories
        self._node = node
        self._clock = clock
        self._owner = owner_of(pod)
        self._tokens = PodTokens(client, pod)
        self._references = References(client, pod.metadata.namespace)

    async def make(self) -> dict[str, str]:
        """Make the volumes. Return the paths on the node by volume name.

        Raises:
            VolumeError: one cannot be made now; the text is that of the FailedMount event.
        """
        self._directories.make()
        return {volume.name: await self._try(volume) for volume in self._pod.spec.volumes}

    async def refresh(self, pod: Pod) -> None:
        """Bring volumes up to date with their config maps, secrets and the pod itself; tokens are renewed in time.

        Raises:
            VolumeError: one cannot be read now; it stays as it is.
        """
        self._pod = pod
        self._references = References(self._client, pod.metadata.namespace)
        for volume in pod.spec.volumes:
            if is_payload(volume):
                await self._try(volume)

    async def _try(self, volume: Volume) -> str:
        try:
            return await self._make(volume)
        except (ContainerConfigError, OSError, StatusError, ConnectionError) as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error

    async def _make(self, volume: Volume) -> str:
        if volume.host_path is not None:
            return _host_path(volume.host_path)
        if volume.empty_dir is not None:
            directory = self._directory(EMPTY_DIR, volume.name)
            if volume.empty_dir.medium == "Memory" and self._memory:
                make_memory_volume(directory, memory_size(self._pod, volume.empty_dir, self._node))
            # After creation, because the process' umask narrows the mode of mkdir. Containers run as any user.
            directory.chmod(0o777)
            give_to_group(directory, self._owner, writable=True)
            return str(directory)
        if volume.config_map is not None:
            source = volume.config_map
            content = await self._references.config_map(source.name, optional=bool(source.optional))
            files = _selected(content, source.items, source.default_mode, bool(source.optional))
            return self._write("configmap", volume.name, files)
        if volume.secret is not None:
            secret = volume.secret
            content = await self._references.secret(secret.secret_name, optional=bool(secret.optional))
            files = _selected(content, secret.items, secret.default_mode, bool(secret.optional))
            return self._write("secret", volume.name, files)
        if volume.downward_api is not None:
            downward = volume.downward_api
            return self._write("downward-api", volume.name, self._downward(downward.items, downward.default_mode))
        if volume.projected is not None:
            return self._write("projected", volume.name, await self._projected(volume.projected))
        raise ContainerConfigError("no volume plugin matched: this node agent knows no volumes of that type")

    def _directory(self, kind: str, name: str) -> Path:
        directory = self._directories.home / "volumes" / f"kubernetes.io~{kind}" / name
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        return directory

    def _write(self, kind: str, name: str, files: Sequence[PayloadFile]) -> str:
        directory = self._directory(kind, name)
        write_payload(directory, files, self._owner)
        return str(directory)

    def _downward(self, items: Sequence[DownwardAPIVolumeFile], mode: int | None) -> list[PayloadFile]:
        return [PayloadFile(item.path, self._downward_value(item).encode(), _mode(item.mode, mode)) for item in items]

    def _downward_value(self, item: DownwardAPIVolumeFile) -> str:
        if item.field_ref is not None:
            return field_value(self._pod, item.field_ref.field_path, self._node.address)
        if item.resource_field_ref is not None:
            return resource_value(self._pod, Container(), item.resource_field_ref, self._node.allocatable)
        return ""

    async def _projected(self, source: ProjectedVolumeSource) -> list[PayloadFile]:
        files: list[PayloadFile] = []
        for part in source.sources or ():
            if part.config_map is not None:
                # The cluster's certificate authority is in every namespace of a real cluster; here it may not be.
                optional = bool(part.config_map.optional) or part.config_map.name == "kube-root-ca.crt"
                content = await self._references.config_map(part.config_map.name, optional=optional)
                files += _selected(content, part.config_map.items, source.default_mode, optional)
            if part.secret is not None:
                optional = bool(part.secret.optional)
                content = await self._references.secret(part.secret.name, optional=optional)
                files += _selected(content, part.secret.items, source.default_mode, optional)
            if part.downward_api is not None:
                files += self._downward(part.downward_api.items, source.default_mode)
            if part.service_account_token is not None:
                files += await self._token(part.service_account_token, source.default_mode)
        return files

    async def _token(self, wanted: ServiceAccountTokenProjection, mode: int | None) -> list[PayloadFile]:
        token = await self._tokens.get(wanted, self._clock.monotonic())
        if token is None:
            return []
        # Without an own user or group all users of the container may read the token, as any other file of the volume.
        if self._owner == Owner():
            return [PayloadFile(wanted.path, token.encode(), _mode(None, mode))]
        # With one, only that user may: other processes of the container must not act as its service account.
        return [PayloadFile(wanted.path, token.encode(), _TOKEN_MODE, private=True)]


def is_payload(volume: Volume) -> bool:
    """Return True if the node writes what is in the volume, and keeps it up to date."""
    sources = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    return any(source is not None for source in sources)


def _mode(own: int | None, default: int | None) -> int:
    if own is not None:
        return own
    return default if default is not None else _DEFAULT_MODE


def _selected(
    content: Mapping[str, bytes] | None, items: Sequence[KeyToPath], mode: int | None, optional: bool
) -> list[PayloadFile]:
    if content is None:
        return []
    if not items:
        return [PayloadFile(key, value, _mode(None, mode)) for key, value in content.items()]
    files: list[PayloadFile] = []
    for item in items:
        if item.key in content:
            files.append(PayloadFile(item.path, content[item.key], _mode(item.mode, mode)))
        elif not optional:
            raise ContainerConfigError(f"references non-existent config key: {item.key}")
    return files


_TESTS: Final = {
    "Directory": (os.path.isdir, "is not a directory"),
    "File": (os.path.isfile, "is not a file"),
    "Socket": (os.path.exists, "does not exist"),
    "CharDevice": (os.path.exists, "does not exist"),
    "BlockDevice": (os.path.exists, "does not exist"),
}


def _host_path(source: HostPathVolumeSource) -> str:
    path = Path(source.path)
    if source.type == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif source.type == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    elif source.type in _TESTS:
        test, problem = _TESTS[source.type]
        if not test(path):
            raise ContainerConfigError(f"hostPath type check failed: {path} {problem}")
    return str(path)


_MOUNTS: Final = Path("/proc/self/mountinfo")


def mounts_are_shared(directory: Path, mounts: Path = _MOUNTS) -> bool:
    """Return True if what is mounted below ``directory`` arrives in mount namespaces made from this one, as the shim's.

    systemd makes all mounts so; inside a container they often are not.
    """
    path, found, shared = os.path.realpath(directory), "", False
    for line in mounts.read_text().splitlines():
        fields = line.split()
        place, options = fields[4], fields[6 : fields.index("-")]
        # Of two mounts at one place the later covers the earlier.
        if len(place) >= len(found) and (path == place or path.startswith(place.rstrip("/") + "/")):
            found, shared = place, any(option.startswith("shared:") for option in options)
    return shared


def make_memory_volume(directory: Path, size: int) -> None:
    """Mount memory at ``directory``. What an earlier agent has mounted there stays, with what it holds.

    Raises:
        OSError: it cannot be mounted.
    """
    # A second mount would hide the files of a running container.
    if not directory.is_mount():
        mount_tmpfs(str(directory), size)


def memory_size(pod: Pod, source: EmptyDirVolumeSource, node: NodeFacts) -> int:
    """Return bytes of such a volume: the least of its own limit, the pod's, and what pods may have; 0: unlimited."""
    limits = (container.resources.limits.get("memory") for container in pod.spec.containers)
    have = node.allocatable.get("memory")
    sizes = (
        source.size_limit.value() if source.size_limit is not None else 0,
        sum(limit.value() for limit in limits if limit is not None),
        have.value() if have is not None else 0,
    )
    # Zero means unlimited in all three, so it does not take part in the minimum.
    return min((size for size in sizes if size > 0), default=0)


# Files that the node writes into a pod's volumes: contents, owners, and service account tokens.
#
# Files get the group of the pod's security context, or the user that all its containers share. Tokens are renewed
# before they expire.


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
    """Return the group that the pod names for its volumes, and its containers' user if they all have the same."""
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
        """Return a token that is still good at ``now`` (monotonic seconds); None where the API server issues none.

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
