"""A large cluster on one server: memory, start from the store, lists in pages, watch fan-out, and the loss of a node.

The server is API server, scheduler and all controllers in one process, with the SQLite store. The agents of simulated
nodes are in a second process, on a session, and the other load comes from a third over HTTP and TLS. Each node has ten
pods, five of them with a claim. They are written into the store directly, as copies of what one node with its pods has
left there, because creating them through the API would take minutes; the agents find the containers of all pods
running, as kubelets do that are restarted.

A stall is the processor time of the server's event loop between two of its timers, which are due 10 ms after each
other. Unlike seconds it does not depend on other work on the machine.

    python -m benchmarks sizes
    python -m benchmarks.sizes NODES
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import uvloop

from benchmarks.apiserver import Target, target_of
from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceClass, ResourceClaimTemplate
from cathedra.api.struct import from_dict
from cathedra.api.timestamp import MicroTime
from cathedra.apiserver.storage.protocol import Record, StorageError, Write
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.resources import DEVICECLASSES, LEASES, PODS, RESOURCECLAIMTEMPLATES
from cathedra.client.transport import PatchType
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.cluster import RunningCluster
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.parts.gctuning import collected_by_memory, resident_bytes, suspend_collection
from cathedra.cluster.process.signals import switch_soon
from cathedra.node.agent import NodeAgent, NodeDependencies
from cathedra.node.config import NodeConfig
from cathedra.node.plugins.client import ClaimReference, PrepareOutcome
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, PodIdentity
from cathedra.node.runtime.simulated import SimulatedRuntime
from cathedra.releases import FeatureGates
from cathedra.session.opening import open_transport

__all__ = ["Sizes", "measured", "rows"]

Row = tuple[str, float, str, str | float | None, str | float | None]

NODES: Final = (1000,)
"""Numbers of nodes in ``make bench``. 10,000 are measured by name alone: the agents' joining takes minutes."""
GOAL_NODES: Final = 10_000
"""Number of nodes for which the goals are meant."""
PODS_EACH: Final = 10
CLAIMS_EACH: Final = 5
TICK: Final = 0.01
PAGE: Final = 500
WATCHERS: Final = 100
WRITES: Final = 1000
WRITERS: Final = 16
LOST: Final = "node-7"
IDLE_SECONDS: Final = 15.0
"""Agents renew their leases every ten."""
DRIVER: Final = "gpu.example.com"
QUIET: Final = 0.35
"""Share of a core below which the start counts as completed: agents renew their leases for ever."""
RENEWED: Final = 100
RENEWAL_SECONDS: Final = 10.0
_CHUNK: Final = 5000
_NODE: Final = re.compile(rb"node-0\b")
_UID: Final = re.compile(rb"[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
_TIME: Final = re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_EPOCH: Final = 1_750_000_000
_HEALTH: Final = re.compile(rb',"allocatedResourcesStatus":\[\{.*?\}\]\}\]')
"""Health of the devices, which the agents of this measurement do not know."""
_VERSION: Final = re.compile(rb'"resourceVersion":"\d+"')

_CLASS: Final = {
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}
_TEMPLATE: Final = {
    "metadata": {"name": "one-gpu"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
}


class Sizes(NamedTuple):
    """Figures of one size."""

    nodes: int
    serving: float
    """Processor time in seconds from the start of the process until it serves."""
    joined: float
    """Processor time in seconds of the server from then on until all agents are ready."""
    memory: float
    """MiB of the server with all agents."""
    loaded: float
    """MiB of the server after the lists and watches of this measurement."""
    agents: float
    """MiB of all agents."""
    idle: float
    """Share of a core without load."""
    page: float
    """Processor time in ms of a page of `PAGE` pods."""
    page_stall: float
    """Longest stall in ms while all pods are listed in pages."""
    changed_page: float
    """As ``page``, where a pod is changed before each page."""
    event: float
    """Processor time in µs of an event that is delivered to one of `WATCHERS` watchers of all pods."""
    event_stall: float
    loss: float
    """Processor time in ms from the loss of a node to the eviction of its pods, beyond that of an idle cluster."""
    loss_stall: float


def rows() -> Iterator[Row]:
    """The rows of ``make bench``."""
    for nodes in NODES:
        yield from _rows(measured(nodes), goals=nodes >= GOAL_NODES)


def _rows(found: Sizes, *, goals: bool) -> Iterator[Row]:
    nodes = found.nodes
    name = f"sizes/{nodes}nodes_{nodes * PODS_EACH}pods_{nodes * CLAIMS_EACH}claims"
    for title, figure, unit, goal in (
        ("StartToServing", found.serving, "s of a core", 10),
        ("AgentsReady", found.joined, "s of a core", None),
        ("Memory", found.memory, "MiB", 2048),
        ("Memory, after lists and watches", found.loaded, "MiB", 2048),
        ("Memory of the agents", found.agents, "MiB", None),
        ("Idle", found.idle * 100, "% of a core", None),
        ("ListPage", found.page, "ms of a core", None),
        ("ListPage, of pods that change", found.changed_page, "ms of a core", None),
        ("ListPage, longest stall", found.page_stall, "ms of a core", 200),
        ("Event", found.event, "µs of a core", None),
        ("Event, longest stall", found.event_stall, "ms of a core", 200),
        ("NodeLoss", found.loss, "ms of a core", None),
        ("NodeLoss, longest stall", found.loss_stall, "ms of a core", 1000),
    ):
        yield f"{name}/{title}", figure, unit, None, goal if goals else None


def measured(nodes: int) -> Sizes:
    """Measure one size."""
    return uvloop.run(_measured(nodes))


async def _measured(nodes: int) -> Sizes:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        await _fill(folder, nodes)
        async with _program("serve", folder, 0) as server:
            serving = (await server.said("serving"))["processor"]
            await server.said("ready")
            async with _program("agents", folder, nodes) as agents:
                await agents.said("ready")
                joined = await server.settled() - serving
                memory, agents_memory = (await server.mark())["memory"], (await agents.mark())["memory"]
                idle = await server.share(IDLE_SECONDS)
                load = _Load(target_of(folder / "kubeconfig", folder))
                page = await server.cost(load.pages)
                changed = await server.cost(load.changed_pages)
                event = await server.cost(load.watch)
                loss = await server.cost(partial(_lose, server, agents, LOST))
                return Sizes(
                    nodes=nodes,
                    serving=serving,
                    joined=joined,
                    memory=memory,
                    loaded=(await server.mark())["memory"],
                    agents=agents_memory,
                    idle=idle,
                    page=page.each * 1000,
                    page_stall=max(page.stall, changed.stall) * 1000,
                    changed_page=changed.each * 1000,
                    event=event.each * 1e6,
                    event_stall=event.stall * 1000,
                    loss=(loss.processor - idle * loss.seconds) * 1000,
                    loss_stall=loss.stall * 1000,
                )


async def _lose(server: _Program, agents: _Program, node: str) -> int:
    """Stop a node's agent, and wait until its pods are evicted."""
    await agents.command("lose", node)
    await server.command("evicted", node)
    return 1


# --- the store ----------------------------------------------------------------------------------------------------


async def _fill(folder: Path, nodes: int) -> None:
    """Run one node with its pods, then copy what it has stored for each further node."""
    async with _program("serve", folder, 1) as server:
        await server.said("ready")
        await server.command("furnish")
    store = SQLiteStorage(folder / "objects.sqlite")
    content = await store.load()
    kept = list(content.records)
    copied = [record for record in kept if _NODE.search(record.value) and not record.key.startswith("//events/")]
    revision = content.revision
    for number in range(1, nodes):
        for record in copied:
            revision += 1
            store.commit(_copy(record, number, revision), _settled)
        if number % (_CHUNK // len(copied)) == 0:
            await asyncio.sleep(0)  # one row of the log
    await store.close()


def _copy(record: Record, number: int, revision: int) -> Write:
    """A record of node-0 as that of another node: names, UIDs, times and revision differ."""
    name, serial = f"node-{number}", b"%08x" % number
    value = _NODE.sub(name.encode(), record.value)
    value = _UID.sub(lambda found: b"%08x" % (int(found[0], 16) ^ int(serial, 16) ^ 0x5A000000), value)
    moved = datetime.fromtimestamp(_EPOCH + revision, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()
    value = _TIME.sub(moved, value)
    value = _VERSION.sub(b'"resourceVersion":"%d"' % revision, value, count=1)
    value = _HEALTH.sub(b"", value)
    if name != LOST:
        # The agents of many nodes join later than the controller waits for nodes. Their pods stay nevertheless.
        value = value.replace(b'"tolerationSeconds":0', b'"tolerationSeconds":3600')
    return Write(_NODE.sub(name.encode(), record.key.encode()).decode(), revision, value)


def _settled(error: StorageError | None) -> None:
    if error is not None:
        raise error


# --- the server ---------------------------------------------------------------------------------------------------


class _Cost(NamedTuple):
    processor: float
    each: float
    seconds: float
    stall: float


class _Program:
    """A part of the cluster in a process of its own, and what it reports in lines of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def said(self, event: str) -> dict[str, Any]:
        """Wait for an event, and return its report."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
        raise RuntimeError(f"the process ended before the event {event!r}")

    async def command(self, *words: str) -> dict[str, Any]:
        """Have it carry out a command, and return the report of its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words).encode() + b"\n")
        return await self.said(words[0])

    async def mark(self) -> dict[str, Any]:
        """Return its processor time, memory, and longest stall since the last mark."""
        return await self.command("mark")

    async def share(self, seconds: float, of: str = "processor") -> float:
        """Return the share of a core that it takes now, or that it would take if it were alone on its core."""
        before = await self.mark()
        await asyncio.sleep(seconds)
        after = await self.mark()
        return float((after[of] - before[of]) / (after["at"] - before["at"]))

    async def settled(self) -> float:
        """Wait until the start is completed, and return the processor time that it took."""
        while True:
            taken = (await self.mark())["processor"]
            if await self.share(3.0, "demand") < QUIET:
                return float(taken)

    async def cost(self, load: Callable[[], Awaitable[int]]) -> _Cost:
        """Return what a load costs it; the load returns the number of its steps."""
        before = await self.mark()
        count = await load()
        after = await self.mark()
        processor = after["processor"] - before["processor"]
        return _Cost(processor, processor / count, after["at"] - before["at"], after["stall"])


@asynccontextmanager
async def _program(part: str, folder: Path, nodes: int) -> AsyncIterator[_Program]:
    with (folder / "bench.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.sizes", f"--{part}", str(folder), str(nodes)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    try:
        yield _Program(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


class _Stalls:
    """The longest stall of this event loop."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            before = time.thread_time()
            await asyncio.sleep(TICK)
            self.longest = max(self.longest, time.thread_time() - before)


class _Reports:
    """Events of this process, as lines of JSON on its standard output, and commands on its standard input."""

    def __init__(self) -> None:
        self._stalls = _Stalls()

    def say(self, event: str) -> None:
        """Report an event, with what this process has used so far."""
        # On a busy machine a process that starts gets little of a core, as one at rest does. The system also counts the
        # time for which the main thread waited for a core.
        ran, waited, _ = Path("/proc/self/schedstat").read_text().split()
        report = {
            "event": event,
            "at": time.monotonic(),
            "processor": time.process_time(),
            "demand": (int(ran) + int(waited)) / 1e9,
            "memory": resident_bytes() / 2**20,
            "stall": self._stalls.longest,
        }
        print(json.dumps(report), flush=True)

    async def obey(self, carry_out: Callable[[str, str], Awaitable[None]]) -> None:
        """Carry out commands, each with the name of a node or nothing, until the standard input ends."""
        loop, commands = asyncio.get_running_loop(), asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        watching = asyncio.create_task(self._stalls.run())
        while words := (await commands.readline()).decode().split():
            if words != ["mark"]:
                await carry_out(words[0], words[1] if words[1:] else "")
            self.say(words[0])
            if words == ["mark"]:
                self._stalls.longest = 0.0
        watching.cancel()


async def _serve(folder: Path, nodes: int) -> None:
    """Run a cluster with some nodes of its own."""
    reports, clock = _Reports(), SystemClock()
    config = ClusterConfig(data_dir=folder, nodes=nodes, runtime="simulated")

    def progress(line: str) -> None:
        if line.startswith("API server "):
            reports.say("serving")

    running = RunningCluster(config, clock=clock, random=random.Random(1), say=progress).running()
    async with running as cluster, collected_by_memory(clock):
        cluster.write_kubeconfig(folder / "kubeconfig", merge=False)
        await cluster.wait_ready()
        reports.say("ready")

        async def carry_out(command: str, node: str) -> None:
            if command == "furnish":
                await _furnish(cluster.client())
            else:
                await _evicted(cluster.client(), node)

        await reports.obey(carry_out)


async def _run_agents(folder: Path, nodes: int) -> None:
    """Run the agents of nodes whose pods run already."""
    reports, clock = _Reports(), SystemClock()
    async with open_transport(kubeconfig.load(folder / "kubeconfig"), user_agent="kubelet") as transport:
        client = Client(transport, clock=clock)
        waiting = asyncio.create_task(_keep_ready(client, [f"node-{number}" for number in range(nodes)]))
        runtimes = {f"node-{number}": _Runtime(clock) for number in range(nodes)}
        token, first = "", True
        while token or first:
            page = await client.resource(PODS).list(limit=PAGE, continue_=token)
            token, first = page.continue_, False
            for pod in page.items:
                await _continue(runtimes[pod.spec.node_name], pod)
        gates = FeatureGates.for_release()
        async with asyncio.TaskGroup() as group, collected_by_memory(clock):
            agents = {name: _agent(client, gates, name, runtime) for name, runtime in runtimes.items()}
            running = {name: group.create_task(agent.run()) for name, agent in agents.items()}
            await asyncio.gather(*(agent.wait_ready() for agent in agents.values()))
            waiting.cancel()
            reports.say("ready")

            async def lose(command: str, node: str) -> None:
                running[node].cancel()

            await reports.obey(lose)
            for task in running.values():
                task.cancel()


async def _keep_ready(client: Client, nodes: Sequence[str]) -> None:
    """Renew the leases of nodes until cancelled.

    On a busy machine the agents start later than the controller waits for nodes. It would mark all pods as not ready,
    and the agents would write each of them.
    """
    leases = client.resource(LEASES, "kube-node-lease")
    while True:
        for first in range(0, len(nodes), RENEWED):
            spec = {"renewTime": str(MicroTime(client.clock.now()))}
            patches = [leases.patch(name, PatchType.MERGE, {"spec": spec}) for name in nodes[first : first + RENEWED]]
            await asyncio.gather(*patches)
        await client.clock.sleep(RENEWAL_SECONDS)


def _agent(client: Client, gates: FeatureGates, name: str, runtime: SimulatedRuntime) -> NodeAgent:
    return NodeAgent(
        client,
        NodeConfig(name=name, root=None, stop_containers=False),
        clock=client.clock,
        random=random.Random(name),
        gates=gates,
        dependencies=NodeDependencies(runtime=runtime, plugins={DRIVER: _Plugin()}),
    )


class _Runtime(SimulatedRuntime):
    """A runtime whose containers have run for some time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.began: dict[str, float] = {}

    async def open(self, on_exit: Callable[[ContainerRun], None]) -> tuple[ContainerRun, ...]:
        found = await super().open(on_exit)
        return tuple(msgspec.structs.replace(run, started_at=self.began[run.id]) for run in found)


async def _continue(runtime: _Runtime, pod: Pod) -> None:
    """Start the containers that the pod's status has, under the same IDs."""
    identity = PodIdentity(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
    for status in pod.status.container_statuses:
        run_id, running = status.container_id.partition("://")[2], status.state.running
        if running is not None and running.started_at is not None:
            runtime.began[run_id] = running.started_at.timestamp
        await runtime.start(ContainerSpec(run_id, identity, status.name, status.restart_count, argv=()))


class _Plugin:
    """A driver that has prepared every claim."""

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        return {claim.uid: PrepareOutcome(()) for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        return {claim.uid: "" for claim in claims}


async def _furnish(client: Client) -> None:
    """Create the pods of the first node, and wait until they run."""
    await client.resource(DEVICECLASSES).create(from_dict(DeviceClass, _CLASS))
    await client.resource(RESOURCECLAIMTEMPLATES, "default").create(from_dict(ResourceClaimTemplate, _TEMPLATE))
    pods = client.resource(PODS, "default")
    for number in range(PODS_EACH):
        await pods.create(_pod(number))
    await _until(client, "node-0", lambda pod: pod.status.phase == "Running")


async def _evicted(client: Client, node: str) -> None:
    await _until(client, node, lambda pod: bool(pod.metadata.deletion_timestamp))


async def _until(client: Client, node: str, done: Callable[[Pod], bool]) -> None:
    """Wait until all pods of a node are so, or gone."""
    pods = client.resource(PODS, "default")
    selector = f"spec.nodeName={node}"
    found = await pods.list(field_selector=selector)
    waiting = {pod.metadata.name for pod in found.items if not done(pod)}
    if node == "node-0":
        waiting = {_name(node, number) for number in range(PODS_EACH)} - {
            pod.metadata.name for pod in found.items if done(pod)
        }
    async with pods.watch(field_selector=selector, resource_version=found.resource_version) as events:
        while waiting:
            event = await anext(events)
            if event.object is not None and done(event.object):
                waiting.discard(event.object.metadata.name)


def _name(node: str, number: int) -> str:
    return f"{node}-pod-{number}"


def _pod(number: int) -> Pod:
    container: dict[str, Any] = {
        "name": "main",
        "image": "registry.example.com/team/app:1.2.3",
        "env": [{"name": f"VARIABLE_{n}", "value": f"value {n}"} for n in range(5)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    spec: dict[str, Any] = {
        "containers": [container],
        "automountServiceAccountToken": False,
        "tolerations": [
            {"key": f"node.kubernetes.io/{kind}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
            for kind in ("not-ready", "unreachable")
        ],
    }
    if number < CLAIMS_EACH:
        container["resources"]["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    metadata = {"name": _name("node-0", number), "labels": {"app": "bench", "tier": "test"}}
    return from_dict(Pod, {"metadata": metadata, "spec": spec})


# --- the load -----------------------------------------------------------------------------------------------------


class _Continued(msgspec.Struct):
    """The token of the next page."""

    token: str = msgspec.field(default="", name="continue")


class _PodPage(msgspec.Struct):
    metadata: _Continued
    items: list[msgspec.Raw]


class _Connection:
    """Requests over HTTP and TLS, one after the other; only what the load needs is decoded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    @staticmethod
    async def open(target: Target) -> _Connection:
        """Connect."""
        reader, writer = await asyncio.open_connection(
            target.host, target.port, ssl=target.context(), server_hostname=target.host, limit=2**26
        )
        return _Connection(reader, writer)

    async def send(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Send a request and return the answer's body, or nothing if it has no length."""
        kind = f"Content-Type: application/merge-patch+json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\nHost: bench\r\n{kind}\r\n".encode() + body)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(head.decode())
        _, found, length = head.partition(b"content-length: ")
        return await self.reader.readexactly(int(length.partition(b"\r")[0])) if found else b""

    def close(self) -> None:
        """Close it."""
        self._writer.close()


class _Load:
    """Requests of clients of a large cluster."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._written = 0

    async def pages(self) -> int:
        """List all pods in pages; return their number."""
        connection, token, count = await _Connection.open(self._target), "", 0
        while token or not count:
            path = f"/api/v1/pods?limit={PAGE}" + (f"&continue={token}" if token else "")
            token = msgspec.json.decode(await connection.send("GET", path), type=_PodPage).metadata.token
            count += 1
        connection.close()
        return count

    async def changed_pages(self) -> int:
        """The same while pods change."""
        writer = await _Connection.open(self._target)
        done = asyncio.Event()

        async def write() -> None:
            while not done.is_set():
                await self._write(writer)

        writing = asyncio.create_task(write())
        count = await self.pages()
        done.set()
        await writing
        writer.close()
        return count

    async def watch(self) -> int:
        """Change pods that many watch; return the number of events."""
        connections = [await _Connection.open(self._target) for _ in range(WATCHERS)]
        for one in connections:
            await one.send("GET", "/api/v1/pods?watch=true&resourceVersion=" + await self._version())
        writers = [await _Connection.open(self._target) for _ in range(WRITERS)]

        async def write(connection: _Connection) -> None:
            for _ in range(WRITES // WRITERS):
                await self._write(connection)

        async def read(connection: _Connection) -> None:
            received = 0
            while received < WRITES // WRITERS * WRITERS:
                received += (await connection.reader.read(2**20)).count(b"}\n")

        await asyncio.gather(*map(write, writers), *map(read, connections))
        for one in (*connections, *writers):
            one.close()
        return WRITES * WATCHERS

    async def _version(self) -> str:
        connection = await _Connection.open(self._target)
        answer = await connection.send("GET", "/api/v1/pods?limit=1")
        connection.close()
        found = re.search(rb'"resourceVersion":"(\d+)"', answer)
        assert found is not None
        return found[1].decode()

    async def _write(self, connection: _Connection) -> None:
        self._written += 1
        pod = _name(f"node-{self._written % 100 + 10}", self._written % PODS_EACH)
        body = b'{"metadata":{"annotations":{"written":"%d"}}}' % self._written
        await connection.send("PATCH", f"/api/v1/namespaces/default/pods/{pod}", body)


def main(arguments: Sequence[str]) -> int:
    """Run a part for a measurement, or measure one size."""
    match arguments:
        case ["--serve" | "--agents" as part, folder, nodes]:
            suspend_collection()
            switch_soon()
            uvloop.run((_serve if part == "--serve" else _run_agents)(Path(folder), int(nodes)))
        case [nodes]:
            for name, figure in measured(int(nodes))._asdict().items():
                print(f"{name:<14} {figure:>12,.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
