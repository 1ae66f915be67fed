"""The protocol between pods and container runtimes.

The protocol is small on purpose: start, signal, remove, exec, and a callback when a container ends. Restart policies,
back-off, probes and grace periods belong to the pod, not to the runtime. A runtime may have images, and sandboxes that
a pod's containers share; without them the property is None.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Final, Protocol

import msgspec

from cathedra.cdi.spec import DeviceNode

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


class UnusableRuntime(Exception):
    """The configured runtime cannot be used on this machine. The text has the reason."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why
        super().__init__(f"container runtime {name} cannot be used on this machine: {why}")


class ImageFailure(Exception):
    """An image could not be looked up or pulled; the text is the runtime's own, in Kubernetes' form of it."""


class PodIdentity(msgspec.Struct, frozen=True):
    """Identity of a container's pod."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class BindMount(msgspec.Struct, frozen=True):
    """A file or directory of the host in the container."""

    host_path: str
    container_path: str
    read_only: bool = False
    propagation: str = "rprivate"
    volume: str = ""
    """For a sub-path: the volume, below which no step of ``host_path`` may be a link. "" for a whole volume."""


class ResourceLimits(msgspec.Struct, frozen=True):
    """Limits in the kernel's units; None means none. CPU in thousandths, memory in bytes."""

    cpu_shares: int | None = None
    cpu_milli: int | None = None
    memory: int | None = None
    huge_pages: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Page size as in ``2MB`` → bytes."""
    oom_score_adj: int | None = None
    """OOM score adjustment; None: the agent's own."""


class SeccompSource(msgspec.Struct, frozen=True):
    """Source of a container's seccomp filter."""

    type: str = "Unconfined"
    """``RuntimeDefault``, ``Unconfined`` or ``Localhost``."""
    path: str = ""
    """The file of the profile on the node, with ``Localhost``."""


class SandboxSpec(msgspec.Struct, frozen=True):
    """Configuration that a pod's containers share."""

    pod: PodIdentity
    attempt: int = 0
    hostname: str = ""
    host_network: bool = False
    host_ports: bool = False
    """True if a container requests ports of the node."""
    host_pid: bool = False
    host_ipc: bool = False
    shared_pid: bool = False
    """True if the containers see each other's processes."""
    privileged: bool = False
    """True if one of the containers is."""
    log_directory: str = ""
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    resolver_options: tuple[str, ...] = ()
    sysctls: Mapping[str, str] = msgspec.field(default_factory=dict)
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)


class ContainerSpec(msgspec.Struct, frozen=True):
    """Everything a runtime has to know to start a container."""

    id: str
    pod: PodIdentity
    name: str
    attempt: int
    argv: tuple[str, ...]
    """Command line, for runtimes without images."""
    command: tuple[str, ...] = ()
    """Replaces the image's entry point."""
    args: tuple[str, ...] = ()
    """Replaces the image's arguments."""
    image: str = ""
    image_id: str = ""
    """The image as the runtime knows it; "" where there are no images."""
    environment: tuple[tuple[str, str], ...] = ()
    working_directory: str = ""
    hostname: str = ""
    mounts: tuple[BindMount, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    """Device nodes of claimed devices that are passed without CDI."""
    limits: ResourceLimits = ResourceLimits()
    uid: int | None = None
    """None: the image's own user; root where there are no images."""
    user: str = ""
    """The user by name, instead of ``uid``."""
    non_root: bool = False
    """True if it must not run as root."""
    gid: int | None = None
    groups: tuple[int, ...] = ()
    privileged: bool = False
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    no_new_privileges: bool = False
    read_only_root: bool = False
    host_pid: bool = False
    seccomp: SeccompSource = SeccompSource()
    tty: bool = False
    stdin: bool = False
    """True if its input can be attached to; else that is empty."""
    stdin_once: bool = False
    """True if the input closes when the first attached client disconnects."""
    log_path: str = ""
    termination_log: str = ""
    termination_path: str = "/dev/termination-log"
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    cgroup_parent: str = ""
    """The cgroup that its own is below; "": the runtime's choice."""


class ContainerRun(msgspec.Struct, frozen=True):
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
    image: str = ""
    """The image's name as the runtime has it; "" where there are no images."""
    image_id: str = ""
    warnings: tuple[str, ...] = ()
    """Sentences about what the container was started without."""

    @property
    def running(self) -> bool:
        """Return True if it has not ended yet."""
        return self.exit_code is None


class ContainerUsage(msgspec.Struct, frozen=True):
    """Processor time of a running container since its start, and its current memory in bytes."""

    cpu_nanoseconds: int
    memory: int


class ExecProcess(Protocol):
    """A command that runs inside a container."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the output as (`STDOUT` or `STDERR`, bytes), until both streams are closed."""

    async def write(self, data: bytes) -> None:
        """Send to its standard input."""

    async def close_input(self) -> None:
        """Close the command's input; it reads an end of file."""

    def resize(self, width: int, height: int) -> None:
        """Note that the terminal has another size, in characters."""

    async def wait(self) -> int:
        """Return the exit code."""

    async def close(self) -> None:
        """Kill the process if it still runs, and release its resources."""


class Image(msgspec.Struct, frozen=True):
    """A local image; ``size`` in bytes."""

    id: str
    size: int = 0
    uid: int | None = None
    """Numeric user; None if the image has a name in ``user``, or neither."""
    user: str = ""


class RegistryLogin(msgspec.Struct, frozen=True):
    """Credentials for a registry."""

    username: str = ""
    password: str = ""
    auth: str = ""
    server: str = ""
    identity_token: str = ""
    registry_token: str = ""


class RunningSandbox(msgspec.Struct, frozen=True):
    """A sandbox that is ready."""

    id: str
    address: str = ""
    """The pod's; "" where it shares the node's network."""


class ImageStore(Protocol):
    """The images of a runtime."""

    async def find(self, image: str) -> Image | None:
        """Return the image of that name; None if it is not local.

        Raises:
            ImageFailure: the runtime failed.
        """

    async def pull(self, image: str, login: RegistryLogin | None) -> None:
        """Get the image from its registry, for as long as it takes.

        Raises:
            ImageFailure: it cannot be had.
        """


class PortFailure(OSError):
    """The runtime could not connect to a port, which it reports only on the open connection."""


class PortConnection(Protocol):
    """A connection to a port of a pod."""

    async def read(self) -> bytes:
        """Return the next data; b"" at the end.

        Raises:
            PortFailure: the connection was never made.
            OSError: the connection is broken.
        """

    async def write(self, data: bytes) -> None:
        """Send; returns when there is room for more.

        Raises:
            OSError: the connection is broken.
        """

    async def end(self) -> None:
        """Note that nothing more will be sent."""

    def close(self) -> None:
        """Close the connection in both directions."""


class PodSandboxes(Protocol):
    """The sandboxes of a runtime: one for each pod, around its containers."""

    async def run(self, spec: SandboxSpec) -> RunningSandbox:
        """Make the pod's sandbox, or find the one that is ready.

        Raises:
            RuntimeFailure: it cannot be made; nothing of it is left.
        """

    async def stop(self, pod_uid: str) -> None:
        """Stop the pod's sandboxes, and what still runs in them. None is no error.

        Raises:
            RuntimeFailure: one cannot be stopped.
        """

    async def remove(self, pod_uid: str) -> None:
        """Remove the pod's sandboxes with their containers. None is no error."""

    async def pods(self) -> tuple[PodIdentity, ...]:
        """Return the pods that have one."""

    async def connect(self, pod_uid: str, port: int) -> PortConnection:
        """Connect to a port inside the pod.

        Raises:
            OSError: the port is closed, or the runtime does not answer.
        """


class Runtime(Protocol):
    """Starts, stops and observes containers."""

    @property
    def images(self) -> ImageStore | None:
        """Its images; None: containers run on the root file system of their node."""

    @property
    def sandboxes(self) -> PodSandboxes | None:
        """Its sandboxes; None: a pod is nothing but its containers, in the node's network."""

    @property
    def name(self) -> str:
        """Prefix of container IDs, as ``crun`` in ``crun://…``."""

    @property
    def version(self) -> str:
        """The version of that name."""

    @property
    def cgroup(self) -> str:
        """The cgroup that it puts all its containers below, which may be divided among pods; "": that is its own
        business."""

    async def open(self, on_exit: Callable[[ContainerRun], None]) -> tuple[ContainerRun, ...]:
        """Begin; answers the containers that an earlier agent left. ``on_exit`` is called at every end."""

    async def supervise(self) -> None:
        """Replace what holds the containers whenever it is lost, until cancelled; runs between `open` and `close`.

        The containers that are lost with it end with `LOST_REASON`.
        """

    async def status(self) -> tuple[str, ...]:
        """Return the problems that prevent pods from running, in the kubelet's words; () if there are none.

        Raises:
            RuntimeFailure: it does not answer.
        """

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        """Make and start a container.

        Raises:
            RuntimeFailure: it could not be made or started; nothing of it is left.
        """

    async def update(self, container_id: str, limits: ResourceLimits) -> None:
        """Hold a running container to other limits of CPU and memory.

        Raises:
            RuntimeFailure: it does not run, or cannot be held to these; its limits are as before.
        """

    async def signal(self, container_id: str, number: int) -> None:
        """Send a signal; one that has ended, or is not known, is no error."""

    async def remove(self, container_id: str) -> None:
        """Forget a container that has ended, with its writable layer."""

    async def exec(
        self, container_id: str, argv: tuple[str, ...], *, tty: bool = False, stdin: bool = False
    ) -> ExecProcess:
        """Run a command in a running container; one that cannot be executed ends with 126 or 127.

        Raises:
            RuntimeFailure: the container does not run, or there is nothing left to start a command with.
        """

    async def exec_sync(self, container_id: str, argv: tuple[str, ...], seconds: float) -> tuple[int, bytes]:
        """Run a command in a running container to its end; its exit code, and the beginning of what it wrote.

        Raises:
            RuntimeFailure: the container does not run, or there is nothing left to start a command with.
            TimeoutError: the command had not ended after ``seconds``; it has been ended.
        """

    async def attach(self, container_id: str) -> ExecProcess:
        """Return input and output of a container's first process, without its exit code; `close` does not end it.

        Raises:
            RuntimeFailure: the container does not run.
        """

    async def processes(self, container_ids: Collection[str]) -> frozenset[int]:
        """Return the IDs of all processes of running containers, commands in them included.

        Empty where there are sandboxes.
        """

    async def usage(self) -> Mapping[str, ContainerUsage]:
        """Return the usage of running containers by ID, without those that cannot be measured."""

    async def close(self, *, stop_containers: bool) -> None:
        """End. Containers are killed and everything is cleaned up, or left for a later agent."""
