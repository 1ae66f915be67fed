"""A container runtime in this process, written against CRI's rules alone: it refuses, and records, what breaks them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from cathedra._proto import cri_v1_pb2 as api
from cathedra._proto import cri_v1_pb2_grpc as stubs

IMAGE = "registry.example/tools:1"
IMAGE_ID = "sha256:1111"
NETWORK = api.RuntimeCondition(type="NetworkReady", status=True)


class Broken(Exception):
    """The client broke a rule of the interface."""


class FakeCRI:
    """Sandboxes and containers without processes. A rule that is broken is in ``broken``, and fails the call."""

    def __init__(self, *, name: str = "containerd", events: bool = True, conditions: tuple[Any, ...] = ()) -> None:
        self.name = name
        self.events = events
        self.conditions = conditions
        self.info: dict[str, str] = {}
        self.calls: list[tuple[str, Any]] = []
        self.broken: list[str] = []
        self.failures: dict[str, tuple[grpc.StatusCode, str]] = {}
        """Method → how its next call fails."""
        self.images = {IMAGE: api.Image(id=IMAGE_ID, repo_tags=[IMAGE], size=100)}
        self.registry: dict[str, Any] = {}
        """Images that can be pulled."""
        self.sandboxes: dict[str, Any] = {}
        self.configs: dict[str, Any] = {}
        self.stopped: set[str] = set()
        self.containers: dict[str, Any] = {}
        self.created: dict[str, Any] = {}
        self.url = ""
        self._ids = itertools.count(1)
        self._listeners: list[asyncio.Queue[Any]] = []

    def of(self, method: str) -> list[Any]:
        """The requests of one method."""
        return [request for name, request in self.calls if name == method]

    def end(self, container_id: str, code: int = 0, reason: str = "") -> None:
        """A container's process ends."""
        status = self.containers[container_id]
        status.state, status.exit_code = api.CONTAINER_EXITED, code
        status.reason = reason or ("Completed" if code == 0 else "Error")
        status.finished_at = status.started_at + 10**9
        self._tell(container_id, api.CONTAINER_STOPPED_EVENT)

    def lose_sandbox(self, sandbox_id: str) -> None:
        """A sandbox's own process ends."""
        self.sandboxes[sandbox_id].state = api.SANDBOX_NOTREADY

    def _tell(self, container_id: str, kind: Any) -> None:
        for queue in self._listeners:
            queue.put_nowait(api.ContainerEventResponse(container_id=container_id, container_event_type=kind))

    async def answer(self, method: str, request: Any, context: Any) -> Any:
        """Record a call, and answer or fail it."""
        kept = type(request)()
        kept.CopyFrom(request)
        self.calls.append((method, kept))
        if method in self.failures:
            await context.abort(*self.failures.pop(method))
        try:
            return getattr(self, f"_{method}")(request)
        except Broken as error:
            self.broken.append(f"{method}: {error}")
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"broken rule: {error}")
        except KeyError as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{error} not found")

    # What each method does

    def _Version(self, request: Any) -> Any:  # noqa: N802
        return api.VersionResponse(
            version="0.1.0", runtime_name=self.name, runtime_version="1.0", runtime_api_version="v1"
        )

    def _Status(self, request: Any) -> Any:  # noqa: N802
        return api.StatusResponse(status=api.RuntimeStatus(conditions=self.conditions), info=self.info)

    def _UpdateContainerResources(self, request: Any) -> Any:  # noqa: N802
        _rule(self.containers[request.container_id].state == api.CONTAINER_RUNNING, "an updated container runs")
        return api.UpdateContainerResourcesResponse()

    def _RunPodSandbox(self, request: Any) -> Any:  # noqa: N802
        config, metadata = request.config, request.config.metadata
        _rule(bool(metadata.name and metadata.uid and metadata.namespace), "metadata of a sandbox is complete")
        _rule(config.log_directory.startswith("/"), "a log directory is absolute")
        others = [s.metadata for s in self.sandboxes.values()]
        _rule(metadata not in others, "no two sandboxes have the same metadata")
        _rule(
            bool(config.hostname) or config.linux.security_context.namespace_options.network == api.NODE,
            "only in the node's network a sandbox needs no host name",
        )
        sandbox_id = f"s{next(self._ids)}"
        network = api.PodSandboxNetworkStatus(ip="10.0.0.9")
        self.configs[sandbox_id] = config
        self.sandboxes[sandbox_id] = api.PodSandboxStatus(
            id=sandbox_id, metadata=metadata, created_at=next(self._ids), labels=config.labels, network=network
        )
        return api.RunPodSandboxResponse(pod_sandbox_id=sandbox_id)

    def _StopPodSandbox(self, request: Any) -> Any:  # noqa: N802
        sandbox = self.sandboxes.get(request.pod_sandbox_id)
        self.stopped.add(request.pod_sandbox_id)
        if sandbox is not None:
            sandbox.state = api.SANDBOX_NOTREADY
        for container_id, created in self.created.items():
            state = self.containers[container_id].state
            if created.pod_sandbox_id == request.pod_sandbox_id and state == api.CONTAINER_RUNNING:
                self.end(container_id, 137)
        return api.StopPodSandboxResponse()

    def _RemovePodSandbox(self, request: Any) -> Any:  # noqa: N802
        _rule(request.pod_sandbox_id in self.stopped, "a sandbox is stopped before it is removed")
        self.sandboxes.pop(request.pod_sandbox_id, None)
        for container_id, created in tuple(self.created.items()):
            if created.pod_sandbox_id == request.pod_sandbox_id:
                del self.containers[container_id], self.created[container_id]
        return api.RemovePodSandboxResponse()

    def _PodSandboxStatus(self, request: Any) -> Any:  # noqa: N802
        return api.PodSandboxStatusResponse(status=self.sandboxes[request.pod_sandbox_id])

    def _ListPodSandbox(self, request: Any) -> Any:  # noqa: N802
        items = [
            api.PodSandbox(id=s.id, metadata=s.metadata, state=s.state, created_at=s.created_at, labels=s.labels)
            for s in self.sandboxes.values()
            if _fits(s.labels, request.filter.label_selector)
        ]
        return api.ListPodSandboxResponse(items=items)

    def _CreateContainer(self, request: Any) -> Any:  # noqa: N802
        sandbox, config = self.sandboxes[request.pod_sandbox_id], request.config
        _rule(sandbox.state == api.SANDBOX_READY, "containers are created in ready sandboxes")
        _rule(request.sandbox_config == self.configs[sandbox.id], "the sandbox's configuration is repeated as it was")
        _rule(config.image.image in {IMAGE_ID, *self.images}, "the image is there")
        _rule(not config.log_path.startswith("/"), "a log path is relative")
        _rule(all(mount.host_path.startswith("/") for mount in config.mounts), "mounts come from absolute paths")
        security = config.linux.security_context
        user = security.HasField("run_as_user") or bool(security.run_as_username)
        _rule(user or not security.HasField("run_as_group"), "a group comes with a user")
        _rule(not (security.HasField("run_as_user") and security.run_as_username), "a user has a number or a name")
        same = [
            other
            for other in self.created.values()
            if other.pod_sandbox_id == sandbox.id and other.config.metadata == config.metadata
        ]
        _rule(not same, "name and attempt of a container are its own")
        container_id = f"c{next(self._ids)}"
        self.created[container_id] = request
        self.containers[container_id] = api.ContainerStatus(
            id=container_id,
            metadata=config.metadata,
            state=api.CONTAINER_CREATED,
            created_at=10**9,
            image=api.ImageSpec(image=IMAGE),
            image_ref=IMAGE_ID,
            labels=config.labels,
            annotations=config.annotations,
        )
        return api.CreateContainerResponse(container_id=container_id)

    def _StartContainer(self, request: Any) -> Any:  # noqa: N802
        status = self.containers[request.container_id]
        _rule(status.state == api.CONTAINER_CREATED, "a container is started once")
        status.state, status.started_at = api.CONTAINER_RUNNING, 2 * 10**9
        return api.StartContainerResponse()

    def _StopContainer(self, request: Any) -> Any:  # noqa: N802
        status = self.containers[request.container_id]
        if status.state in (api.CONTAINER_RUNNING, api.CONTAINER_UNKNOWN):
            self.end(request.container_id, 137 if request.timeout == 0 else 143)
        return api.StopContainerResponse()

    def _RemoveContainer(self, request: Any) -> Any:  # noqa: N802
        status = self.containers.pop(request.container_id, None)
        self.created.pop(request.container_id, None)
        _rule(status is None or status.state != api.CONTAINER_RUNNING, "a container ends before it is removed")
        return api.RemoveContainerResponse()

    def _ListContainers(self, request: Any) -> Any:  # noqa: N802
        found = [
            api.Container(id=c.id, metadata=c.metadata, state=c.state, labels=c.labels, annotations=c.annotations)
            for c in self.containers.values()
            if _fits(c.labels, request.filter.label_selector)
        ]
        return api.ListContainersResponse(containers=found)

    def _ContainerStatus(self, request: Any) -> Any:  # noqa: N802
        return api.ContainerStatusResponse(status=self.containers[request.container_id])

    def _ReopenContainerLog(self, request: Any) -> Any:  # noqa: N802
        return api.ReopenContainerLogResponse()

    def _ExecSync(self, request: Any) -> Any:  # noqa: N802
        return api.ExecSyncResponse(stdout=" ".join(request.cmd).encode(), exit_code=len(request.cmd))

    def _Exec(self, request: Any) -> Any:  # noqa: N802
        _rule(not (request.tty and request.stderr), "a terminal has one output")
        return api.ExecResponse(url=self.url)

    def _Attach(self, request: Any) -> Any:  # noqa: N802
        _rule(not (request.tty and request.stderr), "a terminal has one output")
        return api.AttachResponse(url=self.url)

    def _PortForward(self, request: Any) -> Any:  # noqa: N802
        return api.PortForwardResponse(url=self.url)

    def _ImageStatus(self, request: Any) -> Any:  # noqa: N802
        return api.ImageStatusResponse(image=self.images.get(request.image.image))

    def _PullImage(self, request: Any) -> Any:  # noqa: N802
        self.images[request.image.image] = self.registry[request.image.image]
        return api.PullImageResponse(image_ref=self.images[request.image.image].id)

    async def listen(self, context: Any) -> AsyncIterator[Any]:
        """The stream of events."""
        if not self.events:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "method GetContainerEvents not implemented")
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self._listeners.append(queue)
        while True:
            yield await queue.get()


def _rule(holds: bool, text: str) -> None:
    if not holds:
        raise Broken(text)


def _fits(labels: Any, selector: Any) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def _servicer(base: type, fake: FakeCRI) -> Any:
    def method(name: str) -> Any:
        async def serve(self: Any, request: Any, context: Any) -> Any:
            return await fake.answer(name, request, context)

        return serve

    async def events(self: Any, request: Any, context: Any) -> AsyncIterator[Any]:
        async for event in fake.listen(context):
            yield event

    made = {name: method(name) for name in vars(base) if not name.startswith("_")}
    if "GetContainerEvents" in made:
        made["GetContainerEvents"] = events
    return type("Servicer", (base,), made)()


@asynccontextmanager
async def serving(fake: FakeCRI, socket: Path) -> AsyncIterator[str]:
    """Serve it at a socket, and check at the end that it has found no fault."""
    server = grpc.aio.server()
    make: Any = stubs
    make.add_RuntimeServiceServicer_to_server(_servicer(make.RuntimeServiceServicer, fake), server)
    make.add_ImageServiceServicer_to_server(_servicer(make.ImageServiceServicer, fake), server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield str(socket)
    finally:
        await server.stop(None)
    assert fake.broken == []
