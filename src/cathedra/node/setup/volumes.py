"""A pod's volumes as directories of the node: made before the first container, removed after the last.

Known are emptyDir, hostPath, configMap, secret, downwardAPI and projected (with service account tokens). Files are
written once; later changes of a config map or secret do not reach a running pod.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cathedra.api.core.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from cathedra.api.core.core_v1 import (
    Container,
    DownwardAPIVolumeFile,
    HostPathVolumeSource,
    KeyToPath,
    Pod,
    ProjectedVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
)
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import SERVICEACCOUNTS
from cathedra.node.runtime.runtime import Mount
from cathedra.node.setup.directories import PodDirectories
from cathedra.node.setup.environment import expand
from cathedra.node.setup.errors import ConfigError, VolumeError
from cathedra.node.setup.nodefacts import NodeFacts
from cathedra.node.setup.ownership import Owner, give_to_group, give_to_user, owner_of
from cathedra.node.setup.references import References, field_value, resource_value

__all__ = ["VolumeMaker", "container_mounts"]

_DEFAULT_MODE: Final = 0o644
_TOKEN_MODE: Final = 0o600
_TOKEN_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    content: bytes
    mode: int
    private: bool = False
    """Only for the user that the pod's containers run as."""


class VolumeMaker:
    """Makes the volumes of one pod."""

    def __init__(self, client: Client, pod: Pod, directories: PodDirectories, node: NodeFacts) -> None:
        self._client = client
        self._pod = pod
        self._directories = directories
        self._node = node
        self._owner = owner_of(pod)
        self._references = References(client, pod.metadata.namespace)

    async def make(self) -> dict[str, str]:
        """Volume name → path on the node.

        Raises:
            VolumeError: one cannot be made now; the text is that of the FailedMount event.
        """
        self._directories.make()
        made: dict[str, str] = {}
        for volume in self._pod.spec.volumes:
            try:
                made[volume.name] = await self._make(volume)
            except (ConfigError, OSError, StatusError, ConnectionError) as error:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error
        return made

    async def _make(self, volume: Volume) -> str:
        if volume.host_path is not None:
            return _host_path(volume.host_path)
        if volume.empty_dir is not None:
            directory = self._directory("empty-dir", volume.name)
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
        raise ConfigError("no volume plugin matched: this node agent knows no volumes of that type")

    def _directory(self, kind: str, name: str) -> Path:
        directory = self._directories.home / "volumes" / f"kubernetes.io~{kind}" / name
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        return directory

    def _write(self, kind: str, name: str, files: Sequence[_File]) -> str:
        directory = self._directory(kind, name)
        for file in files:
            path = directory / file.path
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as out:
                out.write(file.content)
            path.chmod(file.mode)
            if file.private:
                give_to_user(path, self._owner)
        give_to_group(directory, self._owner, writable=False)
        return str(directory)

    def _downward(self, items: Sequence[DownwardAPIVolumeFile], mode: int | None) -> list[_File]:
        return [_File(item.path, self._downward_value(item).encode(), _mode(item.mode, mode)) for item in items]

    def _downward_value(self, item: DownwardAPIVolumeFile) -> str:
        if item.field_ref is not None:
            return field_value(self._pod, item.field_ref.field_path, self._node.address)
        if item.resource_field_ref is not None:
            return resource_value(self._pod, Container(), item.resource_field_ref, self._node.allocatable)
        return ""

    async def _projected(self, source: ProjectedVolumeSource) -> list[_File]:
        files: list[_File] = []
        for part in source.sources:
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

    async def _token(self, wanted: ServiceAccountTokenProjection, mode: int | None) -> list[_File]:
        """A token bound to the pod; none where the API server issues none."""
        metadata = self._pod.metadata
        request = TokenRequest(
            spec=TokenRequestSpec(
                audiences=(wanted.audience,) if wanted.audience else (),
                expiration_seconds=wanted.expiration_seconds or _TOKEN_SECONDS,
                bound_object_ref=BoundObjectReference(
                    kind="Pod", api_version="v1", name=metadata.name, uid=metadata.uid
                ),
            )
        )
        account = self._pod.spec.service_account_name or "default"
        accounts = self._client.resource(SERVICEACCOUNTS, metadata.namespace)
        try:
            issued = await accounts.create_subresource(account, "token", request)
        except StatusError as error:
            if error.code in {404, 405}:
                return []
            raise
        content = issued.status.token.encode()
        if self._owner == Owner():
            return [_File(wanted.path, content, _mode(None, mode))]
        return [_File(wanted.path, content, _TOKEN_MODE, private=True)]


def _mode(own: int | None, default: int | None) -> int:
    if own is not None:
        return own
    return default if default is not None else _DEFAULT_MODE


def _selected(
    content: Mapping[str, bytes] | None, items: Sequence[KeyToPath], mode: int | None, optional: bool
) -> list[_File]:
    if content is None:
        return []
    if not items:
        return [_File(key, value, _mode(None, mode)) for key, value in content.items()]
    files: list[_File] = []
    for item in items:
        if item.key in content:
            files.append(_File(item.path, content[item.key], _mode(item.mode, mode)))
        elif not optional:
            raise ConfigError(f"references non-existent config key: {item.key}")
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
        test, complaint = _TESTS[source.type]
        if not test(path):
            raise ConfigError(f"hostPath type check failed: {path} {complaint}")
    return str(path)


def container_mounts(
    container: Container, volumes: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[Mount]:
    """The mounts of a container.

    Raises:
        ConfigError: a volume is unknown, or a path leads out of it.
    """
    for mount in container.volume_mounts:
        if mount.name not in volumes:
            raise ConfigError(f'cannot find volume "{mount.name}" to mount into container "{container.name}"')
        yield Mount(
            host_path=_below(volumes[mount.name], mount, environment),
            container_path=mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}",
            read_only=mount.read_only,
            propagation={"HostToContainer": "rslave", "Bidirectional": "rshared"}.get(
                mount.mount_propagation or "", "rprivate"
            ),
        )


def _below(volume: str, mount: VolumeMount, environment: Mapping[str, str]) -> str:
    part = expand(mount.sub_path_expr, environment) if mount.sub_path_expr else mount.sub_path
    if not part:
        return volume
    path = Path(volume, part)
    if Path(part).is_absolute() or ".." in Path(part).parts:
        raise ConfigError(f'subPath "{part}" must be a relative path without ..')
    if not path.exists():
        path.mkdir(mode=0o755, parents=True)
    if not path.resolve().is_relative_to(Path(volume).resolve()):
        raise ConfigError(f'subPath "{part}" leads out of the volume')
    return str(path)
