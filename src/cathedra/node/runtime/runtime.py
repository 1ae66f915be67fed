"""What pods ask of a container runtime, and what they are told.

The protocol is small on purpose: start, signal, remove, exec, and a callback when a container ends. Restart policies,
back-off, probes and grace periods belong to the pod, not to the runtime.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

__all__ = [
    "LOST_MESSAGE",
    "LOST_REASON",
    "STDERR",
    "STDOUT",
    "BindMount",
    "ContainerRun",
    "ContainerSpec",
    "ExecProcess",
    "PodIdentity",
    "ResourceLimits",
    "Runtime",
    "RuntimeFailure",
]

STDOUT: Final = 1
STDERR: Final = 2
LOST_REASON: Final = "ContainerStatusUnknown"
"""The reason of an end that nothing witnessed; its exit code is 137, as a kubelet reports it."""
LOST_MESSAGE: Final = (
    "The container could not be located when its container shim was lost.  The container used to be Running"
)


class RuntimeFailure(Exception):
    """A container could not be made or started; ``reason`` is what its waiting state shows."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason, self.message = reason, message
        super().__init__(f"{reason}: {message}")


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """Whose container it is."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class BindMount:
    """A file or directory of the host in the container."""

    host_path: str
    container_path: str
    read_only: bool = False
    propagation: str = "rprivate"
    volume: str = ""
    """Of a part of a volume: the volume, below which no step of ``host_path`` may be a link. "" for a whole one."""


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Limits in the kernel's units; None means none. CPU in thousandths, memory in bytes."""

    cpu_shares: int | None = None
    cpu_milli: int | None = None
    memory: int | None = None
    huge_pages: Mapping[str, int] = field(default_factory=dict)
    """Page size as in ``2MB`` → bytes."""
    oom_score_adj: int | None = None
    """How readily the kernel kills the container when memory runs out; None: as readily as the agent."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """Everything a runtime has to know to start a container."""

    id: str
    pod: PodIdentity
    name: str
    attempt: int
    argv: tuple[str, ...]
    image: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    working_directory: str = ""
    hostname: str = ""
    mounts: tuple[BindMount, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    limits: ResourceLimits = ResourceLimits()
    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    privileged: bool = False
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    no_new_privileges: bool = False
    read_only_root: bool = False
    host_pid: bool = False
    tty: bool = False
    stdin: bool = False
    """Whether its input can be attached to; else that is empty."""
    stdin_once: bool = False
    """Whether its input ends when the first who attached goes away."""
    log_path: str = ""
    termination_log: str = ""
    termination_path: str = "/dev/termination-log"
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """A container as the runtime knows it. Times in seconds since the epoch; no exit code means that it runs."""

    id: str
    pod: PodIdentity
    name: str
    attempt: int
    started_at: float
    finished_at: float | None = None
    exit_code: int | None = None
    signal: int = 0
    reason: str = ""
    message: str = ""

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.exit_code is None


class ExecProcess(Protocol):
    """A command that runs inside a container."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """What it writes, as (`STDOUT` or `STDERR`, bytes), until both ends are closed."""
        ...

    async def write(self, data: bytes) -> None:
        """Send to its standard input."""
        ...

    async def close_input(self) -> None:
        """No more input will come."""
        ...

    def resize(self, width: int, height: int) -> None:
        """The terminal has another size, in characters."""
        ...

    async def wait(self) -> int:
        """Its exit code."""
        ...

    async def close(self) -> None:
        """End it if it still runs, and let go of it."""
        ...


class Runtime(Protocol):
    """Runs containers."""

    @property
    def name(self) -> str:
        """What container IDs begin with, as ``crun`` in ``crun://…``."""
        ...

    @property
    def version(self) -> str:
        """The version of that name."""
        ...

    async def open(self, on_exit: Callable[[ContainerRun], None]) -> tuple[ContainerRun, ...]:
        """Begin; answers the containers that an earlier agent left. ``on_exit`` is called at every end."""
        ...

    async def supervise(self) -> None:
        """Replace what holds the containers whenever it is lost, until cancelled; runs between `open` and `close`.

        The containers that are lost with it end with `LOST_REASON`.
        """
        ...

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        """Make and start a container.

        Raises:
            RuntimeFailure: it could not be made or started; nothing of it is left.
        """
        ...

    async def signal(self, container_id: str, number: int) -> None:
        """Send a signal; one that has ended, or is not known, is no error."""
        ...

    async def remove(self, container_id: str) -> None:
        """Forget a container that has ended, with its writable layer."""
        ...

    async def exec(
        self, container_id: str, argv: tuple[str, ...], *, tty: bool = False, stdin: bool = False
    ) -> ExecProcess:
        """Run a command in a running container; one that cannot be executed ends with 126 or 127.

        Raises:
            RuntimeFailure: the container does not run, or there is nothing left to start a command with.
        """
        ...

    async def attach(self, container_id: str) -> ExecProcess:
        """Input and output of a container's own first process; its exit code is not told, and `close` does not end it.

        Raises:
            RuntimeFailure: the container does not run.
        """
        ...

    async def close(self, *, stop_containers: bool) -> None:
        """End. Containers are killed and everything is cleaned up, or left for a later agent."""
        ...
