"""The specification of a container for its runtime: command, mounts, resources.

A runtime with images gets command and arguments unchanged. Without images the host's own programs run: a container with
a command runs it, one with arguments only runs these as a command (as most images would), and one with neither waits
until it is stopped, because its image's program is unknown.

Sub-paths of volumes are opened without ever leaving the volume. The contents of a volume belong to the pods that write
it, and the node walks it as root. Each step is therefore opened from the descriptor of the last one and follows no link
by itself: links are resolved here, and one that leads out of the volume is an error. A container that replaces
directories by links meanwhile cannot make the node create anything elsewhere, because the walk holds descriptors, not
names (as kubelet's ``subpath`` package does).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Container, EnvVar, Pod, PodDNSConfigOption, VolumeMount
from cathedra.node.resources import NodeFacts, container_limits
from cathedra.node.runtime.runtime import BindMount, ContainerSpec, PodIdentity, SandboxSpec, SeccompSource
from cathedra.node.setup.directories import PodDirectories
from cathedra.node.setup.references import ContainerConfigError, References, field_value, resource_value
from cathedra.node.setup.volumes import is_payload

IDLE_SCRIPT: Final = (
    "trap 'exit 0' TERM INT; "
    'echo "$0: images are not pulled, and without a command there is nothing to run; waiting until stopped" >&2; '
    "while :; do sleep 3600 & wait $!; done"
)
"""Command of a container without command and arguments."""
SECCOMP_DIRECTORY: Final = Path("/var/lib/kubelet/seccomp")
"""Below this ``localhostProfile`` names a file, as with any kubelet."""


def identity_of(pod: Pod) -> PodIdentity:
    """Return the identity of the containers' pod."""
    return PodIdentity(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def container_id(pod_uid: str, name: str, attempt: int, generation: int) -> str:
    """Return an ID that follows from which run of which container it is, so that no run can exist twice.

    ``generation`` counts how often the pod was set up from the beginning on this node.
    """
    # A repeated start after a lost answer has the same ID, and the runtime refuses the second container.
    return hashlib.sha256(f"{pod_uid}/{generation}/{name}/{attempt}".encode()).hexdigest()


def container_argv(container: Container, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command line for runtimes without images, with ``$(NAME)`` replaced."""
    words = (*_expanded(container.command, environment), *_expanded(container.args, environment))
    if words and (container.command or not words[0].startswith("-")):
        return words
    return ("sh", "-c", IDLE_SCRIPT, container.image or container.name)


def _expanded(words: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(expand(word, environment) for word in words)


class LaunchInputs(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of a container from the setup of its pod."""

    generation: int
    """Number of times the pod was set up from the beginning on this node."""
    environment: Mapping[str, str]
    volumes: Mapping[str, str]
    """Volume name → path on the node."""
    cdi_devices: tuple[str, ...]
    """Qualified CDI names of claimed devices."""
    directories: PodDirectories | None
    node: NodeFacts


def container_spec(pod: Pod, container: Container, inputs: LaunchInputs, *, attempt: int) -> ContainerSpec:
    """Return the specification of a container.

    Raises:
        ConfigError: a volume is unknown.
    """
    metadata, own = pod.metadata, container.security_context
    capabilities = own.capabilities if own is not None else None
    user, group = _user_of(pod, container)
    log, termination = _log_files(container.name, attempt, inputs)
    return ContainerSpec(
        id=container_id(metadata.uid, container.name, attempt, inputs.generation),
        pod=identity_of(pod),
        name=container.name,
        attempt=attempt,
        argv=container_argv(container, inputs.environment),
        command=_expanded(container.command, inputs.environment),
        args=_expanded(container.args, inputs.environment),
        image=container.image,
        environment=tuple(inputs.environment.items()),
        working_directory=container.working_dir,
        hostname=hostname_of(pod),
        mounts=tuple(container_mounts(pod, container, inputs.volumes, inputs.environment))
        if inputs.directories is not None
        else (),
        cdi_devices=inputs.cdi_devices,
        limits=container_limits(pod, container, inputs.node),
        uid=user,
        gid=group,
        non_root=_must_not_be_root(pod, container),
        groups=_supplemental_groups(pod),
        privileged=bool(own and own.privileged),
        added_capabilities=capabilities.add if capabilities is not None else (),
        dropped_capabilities=capabilities.drop if capabilities is not None else (),
        no_new_privileges=bool(own and own.allow_privilege_escalation is False),
        read_only_root=bool(own and own.read_only_root_filesystem),
        host_pid=pod.spec.host_pid,
        seccomp=seccomp_source(pod, container),
        tty=container.tty,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        log_path=log,
        termination_log=termination,
        termination_path=container.termination_message_path or "/dev/termination-log",
        annotations=metadata.annotations,
    )


def _user_of(pod: Pod, container: Container) -> tuple[int | None, int | None]:
    """Return the user and the group of a container: its own, or those of its pod."""
    own, shared = container.security_context, pod.spec.security_context
    # 0 is a user: «or» would replace root by the pod's user.
    user = own.run_as_user if own is not None else None
    group = own.run_as_group if own is not None else None
    if shared is None:
        return user, group
    return user if user is not None else shared.run_as_user, group if group is not None else shared.run_as_group


def _supplemental_groups(pod: Pod) -> tuple[int, ...]:
    shared = pod.spec.security_context
    if shared is None:
        return ()
    # Volumes are given to the group of the file system. Without it a container that is not root could not write them.
    return (*shared.supplemental_groups, *((shared.fs_group,) if shared.fs_group is not None else ()))


def _log_files(container: str, attempt: int, inputs: LaunchInputs) -> tuple[str, str]:
    """Return the paths of the log and of the termination message, and create the latter; "" without directories."""
    if inputs.directories is None:
        return "", ""
    message_file = inputs.directories.termination_log(container, attempt)
    message_file.parent.mkdir(parents=True, exist_ok=True)
    # Containers run as any user, and must be able to write their last message.
    message_file.touch(mode=0o666)
    return str(inputs.directories.log(container, attempt)), str(message_file)


def sandbox_spec(pod: Pod, directories: PodDirectories | None, attempt: int) -> SandboxSpec:
    """Return the specification of the pod's sandbox."""
    spec, metadata = pod.spec, pod.metadata
    shared, dns = spec.security_context, spec.dns_config
    every = (*spec.init_containers, *spec.containers)
    return SandboxSpec(
        pod=identity_of(pod),
        attempt=attempt,
        hostname=hostname_of(pod),
        host_network=spec.host_network,
        host_ports=any(port.host_port for one in every for port in one.ports),
        host_pid=spec.host_pid,
        host_ipc=spec.host_ipc,
        shared_pid=bool(spec.share_process_namespace),
        privileged=any(bool(one.security_context and one.security_context.privileged) for one in every),
        log_directory=str(directories.logs) if directories is not None else "",
        nameservers=dns.nameservers if dns is not None else (),
        searches=dns.searches if dns is not None else (),
        resolver_options=tuple(_resolver_option(option) for option in dns.options) if dns is not None else (),
        sysctls={each.name: each.value for each in shared.sysctls} if shared is not None else {},
        labels=metadata.labels,
        annotations=metadata.annotations,
    )


def hostname_of(pod: Pod) -> str:
    """Return the name that a pod's containers have as a host."""
    return pod.spec.hostname or pod.metadata.name[:63].rstrip("-.")


def _resolver_option(option: PodDNSConfigOption) -> str:
    return option.name if option.value is None else f"{option.name}:{option.value}"


def _must_not_be_root(pod: Pod, container: Container) -> bool:
    own, shared = container.security_context, pod.spec.security_context
    if own is not None and own.run_as_non_root is not None:
        # False counts as a value: it overrides the pod's setting.
        return own.run_as_non_root
    return bool(shared is not None and shared.run_as_non_root)


def seccomp_source(pod: Pod, container: Container) -> SeccompSource:
    """Return the container's seccomp profile, else its pod's; without either its system calls are not filtered."""
    own, shared = container.security_context, pod.spec.security_context
    profile = own.seccomp_profile if own is not None else None
    if profile is None and shared is not None:
        profile = shared.seccomp_profile
    # Privileged containers are never filtered, whatever their profile is, as in the kubelet.
    if profile is None or bool(own and own.privileged):
        return SeccompSource()
    path = str(SECCOMP_DIRECTORY / (profile.localhost_profile or "")) if profile.type == "Localhost" else ""
    return SeccompSource(profile.type or "Unconfined", path)


def container_mounts(
    pod: Pod, container: Container, volumes: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[BindMount]:
    """Yield the mounts of a container. What the node itself keeps up to date can only be read.

    Raises:
        ConfigError: a volume is unknown, or a path leads out of it.
    """
    # The node writes these files again after changes; a container that changed them would see its changes vanish.
    kept = {volume.name for volume in pod.spec.volumes if is_payload(volume)}
    for mount in container.volume_mounts:
        if mount.name not in volumes:
            raise ContainerConfigError(f'cannot find volume "{mount.name}" to mount into container "{container.name}"')
        volume = volumes[mount.name]
        part = expand(mount.sub_path_expr, environment) if mount.sub_path_expr else mount.sub_path
        yield BindMount(
            host_path=_part(volume, part, mount) if part else volume,
            container_path=mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}",
            read_only=mount.read_only or mount.name in kept,
            propagation={"HostToContainer": "rslave", "Bidirectional": "rshared"}.get(
                mount.mount_propagation or "", "rprivate"
            ),
            # With a sub-path the runtime has to check once more that the mount stays inside the volume.
            volume=os.path.realpath(volume) if part else "",
        )


def _part(volume: str, part: str, mount: VolumeMount) -> str:
    try:
        return make_subpath(Path(volume), part)
    except OSError as error:
        raise ContainerConfigError(
            f'failed to prepare subPath "{part}" of volume "{mount.name}": {error.strerror or error}'
        ) from error


_LINKS: Final = 40
"""Maximum number of links in a path, as in the kernel."""
_STEP: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE: Final = 0o2777
"""Permission bits that a new directory inherits from the volume."""


def make_subpath(volume: Path, subpath: str) -> str:
    """Return the path of ``subpath`` in ``volume``, without links; directories that are missing are made, as the volume
    is.

    Raises:
        ConfigError: it leads out of the volume.
        OSError: a directory cannot be made or opened.
    """
    with opened_subpath(volume, subpath) as descriptor:
        return os.readlink(f"/proc/self/fd/{descriptor}")


@contextlib.contextmanager
def opened_subpath(volume: Path, subpath: str) -> Iterator[int]:
    """Yield a descriptor (``O_PATH``) of ``subpath`` in ``volume``; see `make_subpath`."""
    if Path(subpath).is_absolute() or ".." in Path(subpath).parts:
        raise ContainerConfigError(f'subPath "{subpath}" must be a relative path without ..')
    walk = _DirectoryWalk(volume, subpath)
    try:
        yield walk.to_the_end()
    finally:
        walk.close()


class _DirectoryWalk:
    """The directories from a volume down to where the walk is, each as a descriptor."""

    def __init__(self, volume: Path, subpath: str) -> None:
        self._subpath = subpath
        self._open = [os.open(volume, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._mode = stat.S_IMODE(os.fstat(self._open[0]).st_mode) & _MODE
        self._links = 0

    def close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)

    def to_the_end(self) -> int:
        """Take all steps; answers the last descriptor, which stays the walk's."""
        # A stack, so that the steps of a link are put before the rest of the path.
        ahead = _steps(self._subpath)
        while ahead:
            step = ahead.pop()
            if step == "..":
                self._back()
                continue
            # Opened first and examined by its descriptor: a check by name could be outdated when the name is opened.
            descriptor = self._enter(step)
            if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
                self._open.append(descriptor)
                continue
            try:
                target = os.readlink("", dir_fd=descriptor)
            finally:
                os.close(descriptor)
            ahead += self._resolved(target)
        return self._open[-1]

    def _enter(self, name: str) -> int:
        parent = self._open[-1]
        try:
            return os.open(name, _STEP, dir_fd=parent)
        except FileNotFoundError:
            # Another container of the pod may make the same directory now.
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
            # O_NOFOLLOW, because a container may have replaced the new directory by a link to the node's files.
            made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        os.fchmod(made, self._mode)  # whatever the umask is
        return made

    def _back(self) -> None:
        if len(self._open) == 1:
            raise self._outside()
        os.close(self._open.pop())

    def _resolved(self, target: str) -> list[str]:
        self._links += 1
        # Absolute targets are of the container's root, not of the node's: following one would leave the volume.
        if target.startswith("/") or self._links > _LINKS:
            raise self._outside()
        return _steps(target)

    def _outside(self) -> ContainerConfigError:
        return ContainerConfigError(f'subPath "{self._subpath}" leads out of the volume')


def _steps(path: str) -> list[str]:
    """Return the steps of a path, the first one last."""
    return [step for step in reversed(path.split("/")) if step not in {"", "."}]


# A container's environment variables: literal, from config maps and secrets, from the pod's own fields.
#
# Later definitions win, and ``$(NAME)`` in values, commands and arguments is replaced by what is defined before it.

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by its value; ``$$`` is a dollar sign, and an unknown name stays as it is written."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return values.get(name, match[0])

    return _REFERENCE.sub(replacement, text)


async def container_environment(
    pod: Pod,
    container: Container,
    references: References,
    node: NodeFacts,
    *,
    inherited: Iterable[tuple[str, str]] = (),
) -> dict[str, str]:
    """Return the values of variables by name, in order of definition.

    Raises:
        ConfigError: something that is referred to is missing.
    """
    values: dict[str, str] = dict(inherited)
    for source in container.env_from:
        found: Mapping[str, bytes] | None = None
        if source.config_map_ref is not None:
            found = await references.config_map(
                source.config_map_ref.name, optional=bool(source.config_map_ref.optional)
            )
        elif source.secret_ref is not None:
            found = await references.secret(source.secret_ref.name, optional=bool(source.secret_ref.optional))
        for key, value in (found or {}).items():
            values[source.prefix + key] = value.decode(errors="surrogateescape")
    for variable in container.env:
        value_or_none = await _value(pod, container, variable, references, values, node)
        if value_or_none is not None:
            values[variable.name] = value_or_none
    return values


async def _value(
    pod: Pod, container: Container, variable: EnvVar, references: References, values: Mapping[str, str], node: NodeFacts
) -> str | None:
    source = variable.value_from
    if source is None:
        return expand(variable.value, values)
    if source.field_ref is not None:
        return field_value(pod, source.field_ref.field_path, node.address, node.pod_address)
    if source.resource_field_ref is not None:
        return resource_value(pod, container, source.resource_field_ref, node.allocatable)
    if source.file_key_ref is not None:
        raise ContainerConfigError(
            f"variable {variable.name}: this node agent reads no variables from files of volumes"
        )
    if source.config_map_key_ref is not None:
        key = source.config_map_key_ref
        content = await references.config_map(key.name, optional=bool(key.optional))
        return _entry(content, key.key, f"ConfigMap {pod.metadata.namespace}/{key.name}", optional=bool(key.optional))
    if source.secret_key_ref is not None:
        secret = source.secret_key_ref
        content = await references.secret(secret.name, optional=bool(secret.optional))
        return _entry(
            content, secret.key, f"Secret {pod.metadata.namespace}/{secret.name}", optional=bool(secret.optional)
        )
    return ""


def _entry(content: Mapping[str, bytes] | None, key: str, where: str, *, optional: bool) -> str | None:
    if content is None:
        return None
    if key not in content:
        if optional:
            return None
        raise ContainerConfigError(f"couldn't find key {key} in {where}")
    return content[key].decode(errors="surrogateescape")
