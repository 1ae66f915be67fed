"""Gangs of 8 pods with 1 to 8 GPUs each on 500 nodes of 8: greedy, joint, with moves, and with scores of devices.

Once 200 gangs arrive at the same moment; and once gangs arrive and end for 24 hours of virtual time. With moves, room
is made for the oldest gang that waits, at most every ten minutes; the pods that are moved are created again, as their
controller would. The API server is in memory, and the clock is virtual: figures are shares of the cluster and
processor time, which a busy machine does not change.

    python -m benchmarks gangs
    python -m benchmarks.gangs docs/pictures/gang-trace.svg     # plots of the 24 hours
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, Final, NamedTuple

from cathedra.api.core.core_v1 import Node, Pod, PodStatus
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceClaimStatus, ResourceSlice
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict, replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import DEVICECLASSES, NODES, PODGROUPS, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.client.transport import PatchType
from cathedra.clock import LoopClock, run_virtual
from cathedra.insight.moving.plan import plan_moves
from cathedra.insight.moving.report import MoveStep
from cathedra.insight.moving.search import MoveOptions
from cathedra.insight.reading.live import read_client
from cathedra.releases import FeatureGates
from cathedra.scheduler.configuration.reading import read_configuration
from cathedra.scheduler.scheduler import Scheduler

Row = tuple[str, float, str, str | float | None, str | float | None]

NODES_IN_ALL: Final = 500
GPUS: Final = 8
GANGS: Final = 200
PODS_EACH: Final = 8
HOURS: Final = 24
ARRIVAL: Final = 170.0
"""Seconds between two gangs on average."""
FILLED: Final = 4.0
"""Hours after which the mean of a trace begins."""
STAY: Final = 4 * 3600.0
"""Seconds that a gang runs on average."""
_CONFIGURATION: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [PLUGINS]
"""


class Variant(NamedTuple):
    """Plugins of the scheduler, and whether room is made for gangs that wait."""

    plugins: str
    moves: bool = False


VARIANTS: Final = {
    "greedy": Variant(""),
    "joint": Variant("{name: JointPlacement}"),
    "joint, best fit": Variant("{name: JointPlacement}, {name: DeviceScoring, weight: 20}"),
    "joint, moves": Variant("{name: JointPlacement}", moves=True),
}
BETWEEN_PLANS: Final = 600.0
"""Least number of seconds between two plans of moves."""
MOST_MOVES: Final = 32
"""Largest number of claims that one plan moves."""
_GATES: Final = FeatureGates.for_release("1.37", {"GenericWorkload": True})


class Sample(NamedTuple):
    """The cluster at one moment."""

    hour: float
    used: float
    """Share of the devices."""
    empty: int
    """Nodes with all devices free."""
    largest: int
    """The largest number of devices that are free on one node."""
    waiting: int
    """Gangs that wait."""
    moved: int = 0
    """Pods that were moved until now."""


def rows() -> Iterator[Row]:
    """Yield the figures of each variant."""
    for name, variant in VARIANTS.items():
        # Moves are for a cluster that runs: nothing is moved while the gangs of the burst arrive.
        if not variant.moves:
            burst = _measured(variant)
            yield f"200 gangs of 8 on 500 nodes, {name}: devices in use", 100 * burst[0], "%", None, None
            yield f"200 gangs of 8 on 500 nodes, {name}: nodes with 8 free", burst[1], "nodes", None, None
            yield f"200 gangs of 8 on 500 nodes, {name}: processor time", burst[2], "s", None, None
        hours, samples = traced(variant)
        yield f"24 hours of gangs, {name}: devices in use", 100 * _mean(samples, "used"), "%", None, None
        yield f"24 hours of gangs, {name}: nodes with 8 free", _mean(samples, "empty"), "nodes", None, None
        yield f"24 hours of gangs, {name}: most free on one node", _mean(samples, "largest"), "devices", None, None
        yield f"24 hours of gangs, {name}: gangs that wait", _mean(samples, "waiting"), "gangs", None, None
        yield f"24 hours of gangs, {name}: pods moved", samples[-1].moved, "pods", None, None
        yield f"24 hours of gangs, {name}: processor time", hours, "s", None, None


def _measured(variant: Variant) -> tuple[float, float, float]:
    """Return the share of devices in use, the number of empty nodes, and the processor time in seconds."""
    began = process_time()
    (found,) = run_virtual(_play(variant, trace=False))
    return found.used, found.empty, process_time() - began


def traced(variant: Variant) -> tuple[float, Sequence[Sample]]:
    """Return the processor time of 24 virtual hours, and samples of them."""
    began = process_time()
    samples = run_virtual(_play(variant, trace=True))
    return process_time() - began, samples


def picture(traces: Mapping[str, Sequence[Sample]]) -> str:
    """Return plots of some traces, one below the other: devices in use, nodes with all free, waiting gangs, moves."""
    parts = [_HEAD]
    for row, (title, field, top) in enumerate(_PLOTS):
        base = 120 + 120 * row
        parts.append(f'<text x="40" y="{base - 92}" class="bold">{title}</text>')
        parts.append(f'<path class="axis" d="M40 {base - 80}V{base}H620"/>')
        parts.append(f'<text x="34" y="{base - 70}" text-anchor="end">{top:g}</text>')
        parts.append(f'<text x="34" y="{base}" text-anchor="end">0</text>')
        for number, (name, samples) in enumerate(traces.items()):
            values = [(one.hour, float(getattr(one, field)) * _SCALES.get(field, 1) / top) for one in samples]
            points = [(40 + 580 * hour / HOURS, base - 80 * min(value, 1)) for hour, value in values]
            text = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
            parts.append(f'<polyline class="v{number}" points="{text}"/>')
            if row == 0:
                parts.append(f'<text x="{200 + 115 * number}" y="28" class="l{number}">{name}</text>')
    places = [(hour, f"{40 + 580 * hour / HOURS:.0f}") for hour in (0, 6, 12, 18, 24)]
    hours = "".join(f'<text x="{place}" y="496" text-anchor="middle">{hour} h</text>' for hour, place in places)
    return "\n".join([*parts, hours, "</svg>", ""])


_SCALES: Final = {"used": 100}
_PLOTS: Final = (
    ("devices in use, %", "used", 80.0),
    ("nodes with all 8 devices free", "empty", 500.0),
    ("gangs that wait", "waiting", 10.0),
    ("pods moved in all", "moved", 500.0),
)
_HEAD: Final = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 510" role="img" aria-labelledby="t d">
<title id="t">Gangs on 500 nodes for 24 hours</title>
<desc id="d">With scores of devices, hundreds of nodes stay free as a whole, and no gang waits.
With moves, gangs that wait get room, and no node stays free for long.</desc>
<style>
svg{--ink:#1b1b1b;--line:#c9c9c9}@media(prefers-color-scheme:dark){svg{--ink:#f0f0f0;--line:#3c434a}}
text{fill:var(--ink);font:12px system-ui,sans-serif}.bold{font-weight:600}.axis{stroke:var(--line);fill:none}
polyline{fill:none;stroke-width:1.5}.v0{stroke:#d55e00}.v1{stroke:#0072b2}.v2{stroke:#009e73}.v3{stroke:#cc79a7}
.l0{fill:#d55e00}.l1{fill:#0072b2}.l2{fill:#009e73}.l3{fill:#cc79a7}
</style>"""


def _mean(samples: Sequence[Sample], name: str) -> float:
    """Return the mean once the cluster has filled."""
    return statistics.mean(float(getattr(one, name)) for one in samples if one.hour > FILLED)


async def _play(variant: Variant, *, trace: bool) -> Sequence[Sample]:
    clock = LoopClock(asyncio.get_running_loop())
    versions = {"scheduling.k8s.io/v1beta1": True}
    config = ServerConfig(release="1.37", gates=_GATES, runtime_config=versions)
    server = await APIServer.open(config, clock=clock, random=Random(1))
    client = Client(server.transport(), clock=clock)
    configuration = read_configuration(_CONFIGURATION.replace("PLUGINS", variant.plugins))
    scheduler = Scheduler(client, clock=clock, random=Random(2), gates=_GATES, configuration=configuration)
    for one in _cluster():
        ref: Any = {Node: NODES, ResourceSlice: RESOURCESLICES, DeviceClass: DEVICECLASSES}[type(one)]
        await client.resource(ref).create(one)
    running = asyncio.create_task(scheduler.run())
    try:
        return await (_hours(client, _Mover(client) if variant.moves else None) if trace else _burst(client))
    finally:
        running.cancel()
        await asyncio.wait((running,))
        await server.close()


async def _burst(client: Client) -> Sequence[Sample]:
    random = Random(3)
    for number in range(GANGS):
        await _arrive(client, number, random)
    # Longer than the longest back-off: nothing is tried again afterwards.
    await asyncio.sleep(60)
    return [await _use(client, 0.0)]


async def _hours(client: Client, mover: _Mover | None) -> Sequence[Sample]:
    random = Random(4)
    samples: list[Sample] = []
    ends: list[tuple[float, int]] = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    number, arrives = 0, 0.0
    while loop.time() - began < HOURS * 3600:
        if ends and min(ends)[0] <= arrives:
            end = min(ends)
            ends.remove(end)
            await asyncio.sleep(max(began + end[0] - loop.time(), 0.0))
            await _leave(client, end[1])
            continue
        await asyncio.sleep(max(began + arrives - loop.time(), 0.0))
        now = arrives
        await _arrive(client, number, random)
        ends.append((now + random.expovariate(1 / STAY), number))
        number += 1
        arrives = now + random.expovariate(1 / ARRIVAL)
        if number % 10 == 0:
            moved = mover.moved if mover is not None else 0
            samples.append((await _use(client, now / 3600))._replace(moved=moved))
        if mover is not None:
            await mover.make_room()
    return samples


class _Mover:
    """Makes room for gangs that wait."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._next = 0.0
        self.moved = 0
        """Pods that were moved."""

    async def make_room(self) -> None:
        """Move pods so that the oldest gang that waits fits, if the last plan was made long enough ago."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._next:
            return
        # Longer than the scheduler needs for a gang that has room.
        await asyncio.sleep(5)
        state = await read_client(self._client, source="the benchmark", gates=_GATES)
        waiting = [pod for pod in state.pods if not pod.spec.node_name]
        if not waiting:
            return
        self._next = loop.time() + BETWEEN_PLANS
        oldest = min(waiting, key=lambda pod: int(pod.metadata.name.split("-")[1]))
        # One trial: with 500 nodes the search would end at its bound, and the first moves that are found are taken.
        options = MoveOptions(moves=MOST_MOVES, trials=1, evict=False, prove=False)
        plan = plan_moves(state, [f"pod/{oldest.metadata.name}"], options=options)
        for step in plan.steps:
            await self._take(step)

    async def _take(self, step: MoveStep) -> None:
        if step.action != "recreate":
            patch = {"spec": {"unschedulable": step.action == "cordon"}}
            await self._client.resource(NODES).patch(step.subject, PatchType.MERGE, patch)
            return
        self.moved += 1
        name = step.subject.partition("/")[2]
        pod = await self._client.resource(PODS, "default").get(name)
        claim = await self._client.resource(RESOURCECLAIMS, "default").get(name)
        await _remove(self._client, name)
        await self._client.resource(RESOURCECLAIMS, "default").create(_as_new(claim, ResourceClaimStatus()))
        fresh = _as_new(pod, PodStatus())
        await self._client.resource(PODS, "default").create(replace(fresh, spec=replace(fresh.spec, node_name="")))
        await asyncio.sleep(1)


def _as_new(one: Any, status: Any) -> Any:
    metadata = ObjectMeta(name=one.metadata.name, namespace=one.metadata.namespace)
    return replace(one, metadata=metadata, status=status)


def _cluster() -> Iterator[Node | ResourceSlice | DeviceClass]:
    yield from_dict(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}})
    room = {"cpu": "128", "memory": "1Ti", "pods": "110"}
    for number in range(NODES_IN_ALL):
        name = f"node-{number}"
        yield from_dict(Node, {"metadata": {"name": name}, "status": {"capacity": room, "allocatable": room}})
        devices = [{"name": f"gpu-{place}"} for place in range(GPUS)]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}
        yield from_dict(ResourceSlice, {"metadata": {"name": name}, "spec": spec})


async def _arrive(client: Client, gang: int, random: Random) -> None:
    name = f"gang-{gang}"
    policy = {"schedulingPolicy": {"gang": {"minCount": PODS_EACH}}}
    metadata = {"name": name, "namespace": "default"}
    await client.resource(PODGROUPS, "default").create(from_dict(PodGroup, {"metadata": metadata, "spec": policy}))
    for place in range(PODS_EACH):
        count = random.choice((1, 2, 2, 4, 4, 8))
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        metadata = {"name": f"{name}-{place}", "namespace": "default"}
        claim = {"metadata": metadata, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
        await client.resource(RESOURCECLAIMS, "default").create(from_dict(ResourceClaim, claim))
        spec = {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
            "schedulingGroup": {"podGroupName": name},
            "resourceClaims": [{"name": "gpu", "resourceClaimName": f"{name}-{place}"}],
        }
        await client.resource(PODS, "default").create(from_dict(Pod, {"metadata": metadata, "spec": spec}))


async def _leave(client: Client, gang: int) -> None:
    """End all pods of a gang, and delete their claims."""
    for place in range(PODS_EACH):
        await _remove(client, f"gang-{gang}-{place}")


async def _remove(client: Client, name: str) -> None:
    """End a pod, and delete its claim, which has its name."""
    await client.resource(PODS, "default").delete(name, grace_period_seconds=0)
    claims = client.resource(RESOURCECLAIMS, "default")
    await claims.delete(name)
    # The scheduler's finalizer keeps an allocated claim; its controller, which would take it away, does not run.
    patch = {"metadata": {"finalizers": None}}
    with suppress(StatusError):
        await claims.patch(name, PatchType.MERGE, patch)


async def _use(client: Client, hour: float) -> Sample:
    held: dict[str, int] = {}
    for claim in (await client.resource(RESOURCECLAIMS, "default").list()).items:
        for one in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
            held[one.pool] = held.get(one.pool, 0) + 1
    pods = (await client.resource(PODS, "default").list()).items
    waiting = {pod.spec.scheduling_group for pod in pods if not pod.spec.node_name}
    empty = NODES_IN_ALL - len(held)
    largest = GPUS if empty else GPUS - min(held.values())
    return Sample(hour, sum(held.values()) / (NODES_IN_ALL * GPUS), empty, largest, len(waiting))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture({name: traced(one)[1] for name, one in VARIANTS.items()}))
