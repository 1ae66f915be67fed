"""The OCI runtime specification of a container, as JSON values, with the default seccomp filter.

Containers see the host's root file system below a private writable layer, with fresh /proc, /dev, /sys, /tmp and /run;
they share the host's network. Images are not pulled: the programs of a container must be installed on the host. CDI
edits are applied to the result (`cathedra.cdi.edits`).

The seccomp filter has the names and conditions that containerd's and Docker's defaults have in common, for amd64 and
arm64: what unprivileged programs need, and what each capability is for. Other calls fail with EPERM. clone3 fails with
ENOSYS, so that libraries fall back to clone, whose flags a filter can read.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from cathedra.node.runtime.runtime import BindMount, ContainerSpec, ResourceLimits, SeccompSource

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
    """Return the runtime spec of a container whose root file system is at ``root``.

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
    """Return the spec with the file mounted that the container may leave its termination message in."""
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
    """Return limits in the form of the runtime spec."""
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


_ALLOW: Final = "SCMP_ACT_ALLOW"
_ERRNO: Final = "SCMP_ACT_ERRNO"
_EPERM: Final = 1
_ENOSYS: Final = 38
_VSOCK: Final = 40
"""The address family that a container must not open sockets of."""
_PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
_NAMESPACES: Final = 0x7E020000
"""The flags of clone that make namespaces."""
_ARCHITECTURES: Final = (
    "SCMP_ARCH_X86_64",
    "SCMP_ARCH_X86",
    "SCMP_ARCH_X32",
    "SCMP_ARCH_AARCH64",
    "SCMP_ARCH_ARM",
)
_ALWAYS: Final = """
accept accept4 access adjtimex alarm arch_prctl arm_fadvise64_64 arm_sync_file_range bind breakpoint brk cacheflush
capget capset chdir chmod chown chown32 clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime
clock_gettime64 clock_nanosleep clock_nanosleep_time64 close close_range connect copy_file_range creat dup dup2 dup3
epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2
execve execveat exit exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod
fchmodat fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat
fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_time64 futex_waitv futimesat get_robust_list
get_thread_area getcpu getcwd getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups
getgroups32 getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresgid32 getresuid
getresuid32 getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getuid32 getxattr
inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents
io_pgetevents_time64 io_setup io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset
landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listxattr llistxattr _llseek lremovexattr lseek
lsetxattr lstat lstat64 madvise membarrier memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2
mlockall mmap mmap2 modify_ldt mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64
mq_timedsend mq_timedsend_time64 mq_unlink mremap msgctl msgget msgrcv msgsnd msync munlock munlockall munmap
name_to_handle_at nanosleep newfstatat _newselect open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2
pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64 process_mrelease
process_vm_readv process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev pwritev2 read readahead readlink
readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr rename renameat renameat2
restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity
sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity
sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop
semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address
set_tls setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 setitimer setpgid setpriority
setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid setsockopt setuid
setuid32 setxattr shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 sigprocmask sigreturn socketcall
socketpair splice stat stat64 statfs statfs64 statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs
sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime
timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times tkill truncate
truncate64 ugetrlimit umask uname unlink unlinkat utime utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid
waitpid write writev
"""
_BY_CAPABILITY: Final = {
    "CAP_BPF": "bpf",
    "CAP_DAC_READ_SEARCH": "open_by_handle_at",
    "CAP_PERFMON": "perf_event_open",
    "CAP_SYSLOG": "syslog",
    "CAP_SYS_ADMIN": "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr "
    "move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog umount umount2 "
    "unshare",
    "CAP_SYS_BOOT": "reboot",
    "CAP_SYS_CHROOT": "chroot",
    "CAP_SYS_MODULE": "delete_module finit_module init_module",
    "CAP_SYS_NICE": "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    "CAP_SYS_PACCT": "acct",
    "CAP_SYS_PTRACE": "kcmp pidfd_getfd process_madvise",
    "CAP_SYS_RAWIO": "ioperm iopl",
    "CAP_SYS_TIME": "clock_settime clock_settime64 settimeofday stime",
    "CAP_SYS_TTY_CONFIG": "vhangup",
}


def seccomp_filter(source: SeccompSource, capabilities: Collection[str]) -> dict[str, Any] | None:
    """Return the filter for a container with these capabilities, as the runtime spec has it; None: no filter.

    Raises:
        OSError: the profile's file cannot be read.
        ValueError: it is no JSON.
    """
    if source.type == "RuntimeDefault":
        return default_filter(capabilities)
    if source.type != "Localhost":
        return None
    found = json.loads(Path(source.path).read_bytes())
    if not isinstance(found, dict):
        raise ValueError(f"{source.path} is no seccomp profile")
    return found


def default_filter(capabilities: Collection[str]) -> dict[str, Any]:
    """Return the default filter for a container with these capabilities."""
    rules: list[dict[str, Any]] = [_allowed(_ALWAYS.split())]
    for capability, names in _BY_CAPABILITY.items():
        if capability in capabilities:
            rules.append(_allowed(names.split()))
    rules.append(_allowed(["socket"], _argument(_VSOCK, "SCMP_CMP_NE")))
    rules += [_allowed(["personality"], _argument(value, "SCMP_CMP_EQ")) for value in _PERSONALITIES]
    if "CAP_SYS_ADMIN" not in capabilities:
        no_namespaces = _argument(_NAMESPACES, "SCMP_CMP_MASKED_EQ") | {"valueTwo": 0}
        rules.append(_allowed(["clone"], no_namespaces))
        rules.append({"names": ["clone3"], "action": _ERRNO, "errnoRet": _ENOSYS})
    return {
        "defaultAction": _ERRNO,
        "defaultErrnoRet": _EPERM,
        "architectures": list(_ARCHITECTURES),
        "syscalls": rules,
    }


def _allowed(names: list[str], *arguments: dict[str, Any]) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": names, "action": _ALLOW}
    return rule | {"args": list(arguments)} if arguments else rule


def _argument(value: int, operator: str) -> dict[str, Any]:
    return {"index": 0, "value": value, "op": operator}
