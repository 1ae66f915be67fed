"""What a container runtime is told of a sandbox and of a container, in its own messages. Pure functions.

The labels are a kubelet's, and one more: runtimes are shared, so each node finds its own by the directory it works in.

As whom a container runs: the pod says it, else its image; and whether that may be.

The rules and their texts are a kubelet's.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec.structs import replace

from cathedra._proto import cri_v1_pb2 as api
from cathedra.node.runtime.cri.devices import DeviceEdits, device_message
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

__all__ = [
    "CONTAINER_NAME",
    "LOG",
    "NODE",
    "POD_UID",
    "STREAMS",
    "cgroup_parent",
    "container_config",
    "directory_label",
    "limit_resources",
    "namespaces",
    "pod_of",
    "sandbox_config",
    "with_user",
]

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
    """What tells the containers of the node that works in ``directory`` from those of others."""
    return hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]


def cgroup_parent(label: str, *, systemd: bool) -> str:
    """The cgroup that all containers of a node are below, in the words of the runtime's cgroup driver."""
    return f"cathedra-{label}.slice" if systemd else f"/cathedra-{label}"


def pod_of(labels: object) -> PodIdentity:
    """The pod that labels name."""
    found = dict(labels)  # type: ignore[call-overload]  # a protobuf map
    return PodIdentity(found.get(POD_NAMESPACE, ""), found.get(POD_NAME, ""), found.get(POD_UID, ""))


def _labels(pod: PodIdentity, label: str) -> dict[str, str]:
    return {POD_NAME: pod.name, POD_NAMESPACE: pod.namespace, POD_UID: pod.uid, NODE: label}


def namespaces(spec: SandboxSpec) -> api.NamespaceOption:
    """Which namespaces are the node's, the pod's, and each container's own."""
    process = api.POD if spec.shared_pid else api.CONTAINER
    return api.NamespaceOption(
        network=api.NODE if spec.host_network else api.POD,
        pid=api.NODE if spec.host_pid else process,
        ipc=api.NODE if spec.host_ipc else api.POD,
    )


def sandbox_config(spec: SandboxSpec, label: str, cgroup: str) -> api.PodSandboxConfig:
    """The message for a sandbox."""
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
    """The message for a container in its ``sandbox``."""
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
    """The message for what a container is held to; 0 means that nothing is said."""
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
    """The container with the user of its image, where the pod names none.

    Raises:
        RuntimeFailure: it would run as root, and must not; or its image cannot be looked at.
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
