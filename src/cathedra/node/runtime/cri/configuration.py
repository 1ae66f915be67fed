"""Sandboxes and containers encoded as CRI messages, with users and CDI devices. Pure functions.

The labels are a kubelet's, with one more: runtimes are shared, so each node finds its own containers by its directory.
The user of a container is the pod's, otherwise the image's, with the kubelet's checks and texts.

CDI devices are passed by name, or their edits are applied to the message (docs/spec/node.md §18 and §20). A runtime
that resolves CDI gets the names of devices in its own directories. Devices in the node's directories alone (drivers
beside the agent write there), and all devices of runtimes without CDI (containerd before 1.7), are applied here. CRI
messages cannot express every edit; the others are reported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec.structs import replace

from cathedra._proto import cri_v1_pb2 as api
from cathedra.cdi.catalogue import load
from cathedra.cdi.spec import ContainerEdits, DeviceNode, Mount
from cathedra.node.runtime.runtime import (
    BindMount,
    ContainerSpec,
    ImageFailure,
    ImageStore,
    PodIdentity,
    ResourceLimits,
    RuntimeFailure,
    SandboxSpec,
    SeccompSource,
)

POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"
NODE: Final = "node.cathedra.dev/directory"
"""Label of everything that belongs to one node; its value is `directory_label`."""
LOG: Final = "node.cathedra.dev/log"
"""Annotation of a container: the path of its log."""
STREAMS: Final = "node.cathedra.dev/streams"
"""Annotation of a container: which of ``stdin`` and ``tty`` it has, separated by commas."""

_CPU_PERIOD: Final = 100_000
_LEAST_QUOTA: Final = 1000
_PROPAGATION: Final = {
    "rslave": api.PROPAGATION_HOST_TO_CONTAINER,
    "rshared": api.PROPAGATION_BIDIRECTIONAL,
}
_SECCOMP: Final = {
    "RuntimeDefault": api.SecurityProfile.RuntimeDefault,
    "Unconfined": api.SecurityProfile.Unconfined,
    "Localhost": api.SecurityProfile.Localhost,
}


def directory_label(directory: Path) -> str:
    """Return the label that distinguishes containers of the node with ``directory`` from those of others."""
    return hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]


def cgroup_parent(label: str, *, systemd: bool) -> str:
    """Return the cgroup that all containers of a node are below, in the words of the runtime's cgroup driver."""
    return f"cathedra-{label}.slice" if systemd else f"/cathedra-{label}"


def pod_of(labels: object) -> PodIdentity:
    """Return the pod that labels name."""
    found = dict(labels)  # type: ignore[call-overload]  # a protobuf map
    return PodIdentity(found.get(POD_NAMESPACE, ""), found.get(POD_NAME, ""), found.get(POD_UID, ""))


def _labels(pod: PodIdentity, label: str) -> dict[str, str]:
    return {POD_NAME: pod.name, POD_NAMESPACE: pod.namespace, POD_UID: pod.uid, NODE: label}


def namespaces(spec: SandboxSpec) -> api.NamespaceOption:
    """Return the namespace modes: the node's, the pod's, or the container's own."""
    process = api.POD if spec.shared_pid else api.CONTAINER
    return api.NamespaceOption(
        network=api.NODE if spec.host_network else api.POD,
        pid=api.NODE if spec.host_pid else process,
        ipc=api.NODE if spec.host_ipc else api.POD,
    )


def sandbox_config(spec: SandboxSpec, label: str, cgroup: str) -> api.PodSandboxConfig:
    """Return the message for a sandbox."""
    pod = spec.pod
    dns = None
    if spec.nameservers or spec.searches or spec.resolver_options:
        dns = api.DNSConfig(servers=spec.nameservers, searches=spec.searches, options=spec.resolver_options)
    return api.PodSandboxConfig(
        metadata=api.PodSandboxMetadata(name=pod.name, uid=pod.uid, namespace=pod.namespace, attempt=spec.attempt),
        # A sandbox in the node's network has the node's name.
        hostname="" if spec.host_network else spec.hostname,
        log_directory=spec.log_directory,
        dns_config=dns,
        labels={**spec.labels, **_labels(pod, label)},
        annotations=spec.annotations,
        linux=api.LinuxPodSandboxConfig(
            cgroup_parent=cgroup,
            sysctls=spec.sysctls,
            security_context=api.LinuxSandboxSecurityContext(
                namespace_options=namespaces(spec),
                privileged=spec.privileged,
                seccomp=api.SecurityProfile(profile_type=api.SecurityProfile.RuntimeDefault),
            ),
        ),
    )


def container_config(spec: ContainerSpec, sandbox: SandboxSpec, edits: DeviceEdits, label: str) -> api.ContainerConfig:
    """Return the message for a container in its ``sandbox``."""
    environment = dict([("HOSTNAME", spec.hostname), *spec.environment, *edits.environment])
    mounts = [_mount(mount) for mount in spec.mounts]
    if spec.termination_log:
        mounts.append(api.Mount(container_path=spec.termination_path, host_path=spec.termination_log))
    replaced = {mount.container_path for mount in edits.mounts}
    mounts = [mount for mount in mounts if mount.container_path not in replaced]
    mounts.extend(edits.mounts)
    # Parents before what is mounted in them.
    mounts.sort(key=lambda mount: mount.container_path.rstrip("/").count("/"))
    return api.ContainerConfig(
        metadata=api.ContainerMetadata(name=spec.name, attempt=spec.attempt),
        image=api.ImageSpec(image=spec.image_id or spec.image, user_specified_image=spec.image),
        command=spec.command,
        args=spec.args,
        working_dir=spec.working_directory,
        envs=[api.KeyValue(key=key, value=value) for key, value in environment.items()],
        mounts=mounts,
        devices=[*edits.devices, *(device_message(node) for node in spec.device_nodes)],
        CDI_devices=[api.CDIDevice(name=name) for name in edits.names],
        labels={**_labels(spec.pod, label), CONTAINER_NAME: spec.name},
        annotations={LOG: spec.log_path, STREAMS: ",".join(_streams(spec))},
        log_path=_log_path(spec.log_path, sandbox.log_directory),
        stdin=spec.stdin,
        stdin_once=spec.stdin_once,
        tty=spec.tty,
        linux=api.LinuxContainerConfig(
            resources=limit_resources(spec.limits), security_context=_security(spec, sandbox, edits.groups)
        ),
    )


def _streams(spec: ContainerSpec) -> list[str]:
    return [name for name, there in (("stdin", spec.stdin), ("tty", spec.tty)) if there]


def _log_path(path: str, directory: str) -> str:
    return str(PurePosixPath(path).relative_to(directory)) if path and directory else ""


def _mount(mount: BindMount) -> api.Mount:
    return api.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly=mount.read_only,
        propagation=_PROPAGATION.get(mount.propagation, api.PROPAGATION_PRIVATE),
    )


def limit_resources(limits: ResourceLimits) -> api.LinuxContainerResources:
    """Return the message for a container's limits; 0 means unset."""
    found = api.LinuxContainerResources(
        cpu_shares=limits.cpu_shares or 0,
        memory_limit_in_bytes=limits.memory or 0,
        oom_score_adj=limits.oom_score_adj or 0,
        hugepage_limits=[api.HugepageLimit(page_size=size, limit=most) for size, most in limits.huge_pages.items()],
    )
    if limits.cpu_milli is not None:
        found.cpu_period = _CPU_PERIOD
        found.cpu_quota = max(_LEAST_QUOTA, limits.cpu_milli * _CPU_PERIOD // 1000)
    return found


def _security(spec: ContainerSpec, sandbox: SandboxSpec, groups: tuple[int, ...]) -> api.LinuxContainerSecurityContext:
    return api.LinuxContainerSecurityContext(
        capabilities=api.Capability(
            add_capabilities=spec.added_capabilities, drop_capabilities=spec.dropped_capabilities
        ),
        privileged=spec.privileged,
        namespace_options=namespaces(sandbox),
        run_as_user=None if spec.uid is None else api.Int64Value(value=spec.uid),
        run_as_username=spec.user,
        run_as_group=None if spec.gid is None else api.Int64Value(value=spec.gid),
        readonly_rootfs=spec.read_only_root,
        supplemental_groups=dict.fromkeys((*spec.groups, *groups)),
        no_new_privs=spec.no_new_privileges,
        seccomp=_seccomp(spec.seccomp),
    )


def _seccomp(source: SeccompSource) -> api.SecurityProfile:
    return api.SecurityProfile(profile_type=_SECCOMP[source.type], localhost_ref=source.path)


async def with_user(spec: ContainerSpec, images: ImageStore) -> ContainerSpec:
    """Return the container with the image's user, if the pod names none.

    Raises:
        RuntimeFailure: it would run as root although it must not, or the image cannot be read.
    """
    if spec.uid is None:
        try:
            image = await images.find(spec.image)
        except ImageFailure as error:
            raise RuntimeFailure("CreateContainerConfigError", str(error)) from error
        if image is not None:
            spec = replace(spec, uid=image.uid, user=image.user if image.uid is None else "")
        if image is not None and image.uid is None and not image.user:
            spec = replace(spec, uid=0)
        _verify(spec, "container has runAsNonRoot and image will run as root")
    else:
        _verify(spec, "container's runAsUser breaks non-root policy")
    return spec


def _verify(spec: ContainerSpec, problem: str) -> None:
    if not spec.non_root:
        return
    where = f'(pod: "{spec.pod.name}_{spec.pod.namespace}({spec.pod.uid})", container: {spec.name})'
    if spec.user:
        problem = f"container has runAsNonRoot and image has non-numeric user ({spec.user})"
        problem = f"{problem}, cannot verify user is non-root"
    elif spec.uid:
        return
    raise RuntimeFailure("CreateContainerConfigError", f"{problem} {where}")


_PROPAGATION_OF_EDITS: Final = {
    "rslave": api.PROPAGATION_HOST_TO_CONTAINER,
    "slave": api.PROPAGATION_HOST_TO_CONTAINER,
    "rshared": api.PROPAGATION_BIDIRECTIONAL,
    "shared": api.PROPAGATION_BIDIRECTIONAL,
}


@dataclass(frozen=True, slots=True)
class DeviceEdits:
    """Device names for the runtime, and edits that are applied here."""

    names: tuple[str, ...] = ()
    """Devices that the runtime resolves."""
    environment: tuple[tuple[str, str], ...] = ()
    devices: tuple[api.Device, ...] = ()
    mounts: tuple[api.Mount, ...] = ()
    groups: tuple[int, ...] = ()
    left_out: tuple[str, ...] = field(default=())
    """Edits that a container's description has no place for."""


def resolve_devices(names: Sequence[str], runtime: Sequence[Path], node: Sequence[Path]) -> DeviceEdits:
    """Divide devices: the ``runtime`` resolves those of its directories, the rest comes from the ``node``'s.

    Raises:
        CDIError: a name is in neither, and the runtime resolves none at all.
    """
    if not names:
        return DeviceEdits()
    if not runtime:
        return _edited((), load(node).edits(names))
    theirs, ours = load(runtime).entries, load(node)
    own = [name for name in names if name not in theirs and name in ours.entries]
    # Unknown devices are passed on, so that the error is the runtime's own.
    return _edited(tuple(name for name in names if name not in own), ours.edits(own))


def _edited(names: tuple[str, ...], edits: ContainerEdits) -> DeviceEdits:
    pairs = (variable.partition("=") for variable in edits.env)
    return DeviceEdits(
        names=names,
        environment=tuple((name, value) for name, _, value in pairs),
        devices=tuple(device_message(node) for node in edits.device_nodes),
        mounts=tuple(_mount_of_edit(mount) for mount in edits.mounts if _is_bind(mount)),
        groups=tuple(group for group in edits.additional_gids if group),
        left_out=tuple(_left_out(edits)),
    )


def device_message(node: DeviceNode) -> api.Device:
    """Return the message for a device node."""
    permissions = "" if node.permissions == "none" else node.permissions or "rwm"
    return api.Device(container_path=node.path, host_path=node.host_path or node.path, permissions=permissions)


def _is_bind(mount: Mount) -> bool:
    return mount.type in ("", "bind", "none") or bool({"bind", "rbind"} & set(mount.options))


def _mount_of_edit(mount: Mount) -> api.Mount:
    propagation = next(
        (_PROPAGATION_OF_EDITS[o] for o in mount.options if o in _PROPAGATION_OF_EDITS), api.PROPAGATION_PRIVATE
    )
    return api.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly="ro" in mount.options,
        propagation=propagation,
    )


def _left_out(edits: ContainerEdits) -> list[str]:
    found = [f"{hook.hook_name} hook {hook.path}" for hook in edits.hooks]
    found += [f"{mount.type} mount {mount.container_path}" for mount in edits.mounts if not _is_bind(mount)]
    found += [f"network device {device.name}" for device in edits.net_devices]
    if edits.intel_rdt is not None:
        found.append("intelRdt")
    return found
