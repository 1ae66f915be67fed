"""What an OCI runtime is told of a container: the runtime spec, as plain JSON values.

Containers see the host's root file system below a private writable layer, with fresh /proc, /dev, /sys, /tmp and /run;
they share the host's network. Images are not pulled: what a container runs must be installed on the host. CDI edits are
applied to the result (see `cathedra.cdi.edits`).
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.node.runtime.runtime import BindMount, ContainerSpec, ResourceLimits
from cathedra.node.runtime.seccomp import seccomp_filter

__all__ = ["DEFAULT_PATH", "limit_resources", "oci_spec", "with_termination_log"]

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_DEFAULT_CAPABILITIES: Final = (
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
)
_ALL_CAPABILITIES: Final = (
    *_DEFAULT_CAPABILITIES,
    "CAP_DAC_READ_SEARCH",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_LEASE",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_ADMIN",
    "CAP_NET_BROADCAST",
    "CAP_SYSLOG",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_MODULE",
    "CAP_SYS_NICE",
    "CAP_SYS_PACCT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
)
_MASKED: Final = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/sys/firmware")
_READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_CPU_PERIOD: Final = 100_000
_BASE_DEVICES: Final = (
    ("c", 1, 3), ("c", 1, 5), ("c", 1, 7), ("c", 1, 8), ("c", 1, 9), ("c", 5, 0), ("c", 5, 1), ("c", 5, 2),
    ("c", 136, None),
)  # fmt: skip
"""null, zero, full, random, urandom, tty, console, ptmx and pseudo terminals."""


def oci_spec(spec: ContainerSpec, root: str, cgroups_path: str) -> dict[str, Any]:
    """The runtime spec of a container whose root file system is at ``root``.

    Raises:
        OSError: the file of its seccomp profile cannot be read.
        ValueError: that is no profile.
    """
    namespaces = [{"type": kind} for kind in ("ipc", "uts", "mount")]
    if not spec.host_pid:
        namespaces.append({"type": "pid"})
    config: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "process": _process(spec),
        "root": {"path": root, "readonly": spec.read_only_root},
        "hostname": spec.hostname,
        "mounts": [*_BASE_MOUNTS, *(_bind(mount) for mount in spec.mounts)],
        "annotations": {
            "io.kubernetes.cri.container-name": spec.name,
            "io.kubernetes.cri.sandbox-name": spec.pod.name,
            "io.kubernetes.cri.sandbox-namespace": spec.pod.namespace,
            "io.kubernetes.cri.sandbox-uid": spec.pod.uid,
        },
        "linux": {
            "namespaces": namespaces,
            "cgroupsPath": cgroups_path,
            "resources": _resources(spec),
            "rootfsPropagation": "rslave",
        },
    }
    if not spec.privileged:
        config["linux"] |= {"maskedPaths": list(_MASKED), "readonlyPaths": list(_READ_ONLY)}
        seccomp = seccomp_filter(spec.seccomp, _capabilities(spec))
        if seccomp is not None:
            config["linux"]["seccomp"] = seccomp
    return with_termination_log(config, spec)


def with_termination_log(config: dict[str, Any], spec: ContainerSpec) -> dict[str, Any]:
    """The spec with the file mounted that the container may leave its termination message in."""
    if spec.termination_log:
        mount = _bind(BindMount(spec.termination_log, spec.termination_path))
        return config | {"mounts": [*config["mounts"], mount]}
    return config


def _process(spec: ContainerSpec) -> dict[str, Any]:
    environment = dict([("PATH", DEFAULT_PATH), ("HOSTNAME", spec.hostname), ("HOME", "/root"), *spec.environment])
    process: dict[str, Any] = {
        "terminal": spec.tty,
        "user": {"uid": spec.uid or 0, "gid": spec.gid or 0},
        "args": list(spec.argv),
        "env": [f"{name}={value}" for name, value in environment.items()],
        "cwd": spec.working_directory or "/",
        "noNewPrivileges": spec.no_new_privileges,
    }
    if spec.limits.oom_score_adj is not None:
        process["oomScoreAdj"] = spec.limits.oom_score_adj
    if spec.groups:
        process["user"]["additionalGids"] = list(spec.groups)
    wanted = _capabilities(spec)
    # A process that is not root has its capabilities only in the bounding set, as with any runtime.
    sets = ("bounding", "effective", "permitted") if not spec.uid or spec.added_capabilities else ("bounding",)
    process["capabilities"] = dict.fromkeys(sets, wanted)
    return process


def _capabilities(spec: ContainerSpec) -> list[str]:
    if spec.privileged:
        return list(_ALL_CAPABILITIES)
    added = {_capability(name) for name in spec.added_capabilities}
    dropped = {_capability(name) for name in spec.dropped_capabilities}
    base = set(_ALL_CAPABILITIES if "CAP_ALL" in added else _DEFAULT_CAPABILITIES)
    kept = set() if "CAP_ALL" in dropped else base - dropped
    return sorted((kept | added) - {"CAP_ALL"})


def _capability(name: str) -> str:
    upper = name.upper()
    return upper if upper.startswith("CAP_") else f"CAP_{upper}"


def _resources(spec: ContainerSpec) -> dict[str, Any]:
    devices: list[dict[str, Any]] = [{"allow": spec.privileged, "access": "rwm"}]
    if not spec.privileged:
        for kind, major, minor in _BASE_DEVICES:
            rule: dict[str, Any] = {"allow": True, "type": kind, "major": major, "access": "rwm"}
            devices.append(rule if minor is None else rule | {"minor": minor})
    return {"devices": devices, **limit_resources(spec.limits)}


def limit_resources(limits: ResourceLimits) -> dict[str, Any]:
    """Limits in the form of the runtime spec."""
    resources: dict[str, Any] = {}
    cpu: dict[str, int] = {}
    if limits.cpu_shares is not None:
        cpu["shares"] = limits.cpu_shares
    if limits.cpu_milli is not None:
        cpu |= {"quota": max(1000, limits.cpu_milli * _CPU_PERIOD // 1000), "period": _CPU_PERIOD}
    if cpu:
        resources["cpu"] = cpu
    if limits.memory is not None:
        resources["memory"] = {"limit": limits.memory}
    if limits.huge_pages:
        resources["hugepageLimits"] = [{"pageSize": k, "limit": v} for k, v in limits.huge_pages.items()]
    return resources


def _bind(mount: BindMount) -> dict[str, Any]:
    options = ["rbind", mount.propagation, "ro" if mount.read_only else "rw"]
    return {"destination": mount.container_path, "type": "bind", "source": mount.host_path, "options": options}


def _fresh(destination: str, kind: str, source: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}


_BASE_MOUNTS: Final = (
    _fresh("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
    _fresh("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
    _fresh("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
    _fresh("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),
    _fresh("/dev/mqueue", "mqueue", "mqueue", "nosuid", "noexec", "nodev"),
    _fresh("/sys", "bind", "/sys", "rbind", "nosuid", "noexec", "nodev", "ro"),
    _fresh("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777"),
    _fresh("/run", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=755"),
)
