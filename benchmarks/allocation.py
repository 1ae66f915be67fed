"""The allocator against Kubernetes' own: the same families of instances, at several sizes of cluster.

Kubernetes' figures are those of its Go allocator (1.37) on one processor, with compiled selectors at hand. A row's
value is the median; the 99th percentile stands beside the unit. Time is the processor time of the one thread that
works, so that a busy machine does not count as slowness; only the import is timed by the clock: its best run counts.
The garbage collector is set as in a scheduler: it leaves alone what was there before the first pod.

* «first sight» – the first pod after the start: it also pays for what is otherwise done when slices arrive.
* «cold» – a pod with a new selector: it is compiled and evaluated.
* «warm» – the next pod of the same sort.
* «no memory» – warm selectors, but no answer is shared: not between nodes, not between pods.

The result for all nodes has a verdict for each of them; allocations are computed for one fitting node.

    python -m benchmarks allocation
    PYTHONPATH=. python benchmarks/allocation.py
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import thread_time
from typing import Any, NamedTuple

from cathedra.allocation import Allocation, Allocator, Budget, Features, Inventory, Ledger
from cathedra.allocation.claims.problem import Problem, expand
from cathedra.allocation.equivalence import EQUIVALENCES
from cathedra.allocation.search.budget import BudgetExceeded, Meter
from cathedra.allocation.search.exhaustive import ExhaustiveSearch
from cathedra.allocation.supply.pools import NodeSupplyCache
from cathedra.api.core import core_v1
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict
from cathedra.cluster.parts.gctuning import tune_collection

Row = tuple[str, float, str, str | float | None, str | float | None]

DRIVER = "gpu.example.com"
PER_NODE = 8
SIZES = (10, 500, 5000)
FILLS = ("empty", "half", "mixed", "full")
ROOT = "resource.kubernetes.io/pcieRoot"
WALK = 100_000
"""States that the plain walk of the pairs is given."""
CLASS = from_dict(
    DeviceClass,
    {
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    },
)


class Scene(NamedTuple):
    """A cluster with its nodes."""

    nodes: list[core_v1.Node]
    inventory: Inventory
    ledger: Ledger

    def allocator(self) -> Allocator:
        """An allocator for this moment."""
        return Allocator(Features(), {"gpu": CLASS}, self.inventory.snapshot(), self.ledger.snapshot())


# --- clusters


def gpu(number: int, node: int, *, unique: bool) -> dict[str, Any]:
    """A device with the attributes that drivers commonly publish."""
    attributes: dict[str, Any] = {
        "model": {"string": "a100" if number % 4 else "h100"},
        "numa": {"int": number // 4},
        "index": {"int": number},
        "driverVersion": {"version": "550.54.15"},
    }
    if unique:
        attributes["uuid"] = {"string": f"GPU-{node:06}-{number}"}
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def slice_of(node: int, devices: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """A node's slice."""
    name = f"node-{node:05}"
    body = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    return {"metadata": {"name": f"{name}-gpus"}, "spec": body | spec}


def nodes_of(count: int) -> list[core_v1.Node]:
    """Nodes with labels."""
    return [
        from_dict(
            core_v1.Node,
            {"metadata": {"name": f"node-{n:05}", "labels": {"kubernetes.io/hostname": f"node-{n:05}"}}},
        )
        for n in range(count)
    ]


def filled(fill: str, count: int, names: list[str], half: list[str], pool: str = "") -> Ledger:
    """A ledger in which each node holds nothing, ``half``, everything, or any of its devices (seeded)."""
    ledger = Ledger()
    chance = random.Random(1)
    for node in range(count):
        for name in {"empty": [], "half": half, "full": names}.get(fill) or _some(names, fill, chance):
            ledger.add(holder(node, name, pool))
    return ledger


def _some(names: list[str], fill: str, chance: random.Random) -> list[str]:
    return [name for name in names if chance.random() < 0.5] if fill == "mixed" else []


def holder(node: int, device: str, pool: str = "") -> ResourceClaim:
    """A claim that holds one device."""
    name = f"held-{node:05}-{device}"
    device = device if not pool else f"{device}-{node}"
    result = {"request": "r", "driver": DRIVER, "pool": pool or f"node-{node:05}", "device": device}
    return from_dict(
        ResourceClaim,
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "status": {"allocation": {"devices": {"results": [result]}}},
        },
    )


def whole_gpus(count: int, fill: str = "empty", *, unique: bool = True) -> Scene:
    """Nodes with eight devices each, which have serial numbers."""
    inventory = Inventory(
        from_dict(ResourceSlice, slice_of(node, [gpu(number, node, unique=unique) for number in range(PER_NODE)]))
        for node in range(count)
    )
    names = [f"gpu-{number}" for number in range(PER_NODE)]
    return Scene(nodes_of(count), inventory, filled(fill, count, names, names[::2]))


def partitions(count: int, fill: str = "empty") -> Scene:
    """Nodes with one GPU in partitions that draw on seven counters."""
    counters = {f"memory-slice-{n}": {"value": "1"} for n in range(7)}
    devices = []
    for size in (7, 4, 3, 2, 1):
        for first in range(0, 8 - size, size if size > 1 else 1):
            used = {f"memory-slice-{n}": {"value": "1"} for n in range(first, first + size)}
            devices.append(
                {
                    "name": f"gpu-0-{size}g-{first}",
                    "attributes": {"profile": {"string": f"{size}g"}},
                    "consumesCounters": [{"counterSet": "gpu-0", "counters": used}],
                }
            )
    inventory = Inventory()
    for node in range(count):
        name = f"node-{node:05}"
        pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
        inventory.add_slice(from_dict(ResourceSlice, slice_of(node, devices, pool=pool)))
        sets: dict[str, Any] = slice_of(node, [], pool=pool, sharedCounters=[{"name": "gpu-0", "counters": counters}])
        sets["metadata"] = {"name": f"{name}-counters"}
        inventory.add_slice(from_dict(ResourceSlice, sets))
    single = [f"gpu-0-1g-{n}" for n in range(7)]
    return Scene(nodes_of(count), inventory, filled(fill, count, single, ["gpu-0-1g-0"]))


def spanning(count: int, fill: str = "empty") -> Scene:
    """One pool of which each node has a slice."""
    pool = {"name": "all", "generation": 1, "resourceSliceCount": count}
    inventory = Inventory(
        from_dict(
            ResourceSlice,
            slice_of(
                node, [gpu(n, node, unique=False) | {"name": f"gpu-{n}-{node}"} for n in range(PER_NODE)], pool=pool
            ),
        )
        for node in range(count)
    )
    names = [f"gpu-{number}" for number in range(PER_NODE)]
    return Scene(nodes_of(count), inventory, filled(fill, count, names, names[::2], "all"))


# --- pods


def claim(*requests: dict[str, Any], **devices: Any) -> ResourceClaim:
    """A claim."""
    body = {"requests": list(requests), **devices}
    return from_dict(ResourceClaim, {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": body}})


def request(name: str = "gpus", count: int = 1, *selectors: str, **more: Any) -> dict[str, Any]:
    """A request."""
    chosen = [{"cel": {"expression": one}} for one in selectors]
    body = {"deviceClassName": "gpu", "selectors": chosen, "allocationMode": "ExactCount", "count": count, **more}
    if body["allocationMode"] == "All":
        del body["count"]
    return {"name": name, "exactly": body}


def attribute(name: str, value: str, salt: str = "") -> str:
    """Return a selector; a ``salt`` makes its text new without changing its meaning."""
    return f'device.attributes["{DRIVER}"].{name} == "{value}"' + (f' && "{salt}" != ""' if salt else "")


def simple(salt: str = "") -> ResourceClaim:
    """One device of a model."""
    return claim(request("gpu", 1, attribute("model", "a100", salt)))


def matched(salt: str = "") -> ResourceClaim:
    """Four devices of one NUMA node."""
    selectors = [f'"{salt}" != ""'] if salt else []
    return claim(request("gpus", 4, *selectors), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])


def alternatives(salt: str = "") -> ResourceClaim:
    """Three alternatives, of which no node has the first."""
    subs = (("a", 8, "h100"), ("b", 4, "h100"), ("c", 2, "a100"))
    bodies = [
        {"name": name, **request("x", count, attribute("model", kind, salt))["exactly"]} for name, count, kind in subs
    ]
    return claim({"name": "gpus", "firstAvailable": bodies})


def parts(salt: str = "") -> ResourceClaim:
    """Three partitions of different sizes."""
    return claim(*(request(f"p{size}", 1, attribute("profile", f"{size}g", salt)) for size in (3, 2, 1)))


def everything(salt: str = "") -> ResourceClaim:
    """All devices of a node."""
    return claim(request("gpus", 0, *([f'"{salt}" != ""'] if salt else []), allocationMode="All"))


Pod = Callable[[str], ResourceClaim]


class Family(NamedTuple):
    """A sort of instances, and Kubernetes' figures in milliseconds by number of nodes, half full."""

    label: str
    cluster: Callable[[int, str], Scene]
    pod: Pod
    kubernetes: Mapping[int, float]


FAMILIES = (
    Family("one device", whole_gpus, simple, {500: 14.0, 5000: 145.0}),
    Family("four devices, matchAttribute", whole_gpus, matched, {500: 46.0}),
    Family("three alternatives", whole_gpus, alternatives, {500: 126.0}),
    Family("All mode", whole_gpus, everything, {500: 66.0}),
    Family("partitions, seven counters", partitions, parts, {500: 52.0}),
    Family("a pool spanning all nodes", spanning, simple, {500: 436.0}),
)


# --- measuring


def timed(action: Callable[[], object], times: int) -> list[float]:
    """Seconds of each run."""
    found = []
    for _ in range(times):
        begin = thread_time()
        action()
        found.append(thread_time() - begin)
    return found


def row(label: str, seconds: list[float], unit: str, kubernetes: str | float | None, goal: float | None) -> Row:
    """Median and 99th percentile."""
    factor = {"µs": 1e6, "ms": 1e3}[unit]
    ordered = sorted(seconds)
    p50, p99 = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return label, p50 * factor, f"{unit} (p99 {p99 * factor:.3g})", kubernetes, goal


def ask_all(of: Scene, asked: ResourceClaim) -> int:
    """Put a pod to all nodes and write out the first fitting answer; how many fit."""
    answers = of.allocator().prepare([asked]).on_each(of.nodes)
    fitting = answers.fitting()
    if fitting:
        outcome = answers[fitting[0]]
        assert isinstance(outcome, Allocation)
    return len(fitting)


def single_node() -> Iterator[Row]:
    """One node, one device."""
    for size in SIZES:
        of = whole_gpus(size, "half")
        allocator = of.allocator()
        asked = simple()
        ask_all(of, asked)
        nodes = itertools.cycle(of.nodes)
        yield row(
            f"one node of {size}, one device: next pod of the sort",
            timed(
                lambda nodes=nodes, allocator=allocator, asked=asked: allocator.prepare([asked]).on(next(nodes)), 3000
            ),
            "µs",
            "10–16",
            32.0,
        )
        seconds = []
        for _ in range(3000):
            # The same claim without what was answered before.
            allocator.inventory.caches.forget(EQUIVALENCES)
            prepared = allocator.prepare([asked])
            begin = thread_time()
            prepared.on(next(nodes))
            seconds.append(thread_time() - begin)
        yield row(f"one node of {size}, one device: no memory, prepared", seconds, "µs", "10–16", 32.0)
        holders = (holder(number % size, "gpu-7") for number in range(10**9))

        def make(of: Scene = of, holders: Iterator[ResourceClaim] = holders) -> None:
            of.ledger.add(next(holders))
            of.allocator()

        label = f"making the allocator after a claim event, {size} nodes"
        yield row(label, timed(make, 300), "µs", {500: "96", 5000: "470"}.get(size), None)


def all_nodes() -> Iterator[Row]:
    """One pod on all nodes: every family, at every size, in every state of filling."""
    for family, size in itertools.product(FAMILIES, SIZES):
        for fill in FILLS:
            of = family.cluster(size, fill)
            label = f"{family.label}, {size} nodes, {fill}"
            figure = family.kubernetes.get(size) if fill == "half" else None
            fast = figure / 5 if figure else None
            cold, warm = (5.0, 1.0) if family.pod is simple and size == 5000 else (fast, fast)
            asked = family.pod("")
            gc.collect()
            tune_collection()
            if fill == "half":
                first = timed(lambda of=of, asked=asked: ask_all(of, asked), 1)
                yield row(f"{label}: first sight", first, "ms", figure, None)
            ask_all(of, family.pod("warming"))
            salts = map(str, itertools.count())
            seconds = timed(lambda of=of, family=family, salts=salts: ask_all(of, family.pod(next(salts))), 15)
            yield row(f"{label}: cold", seconds, "ms", figure, cold)
            ask_all(of, asked)
            seconds = timed(lambda of=of, asked=asked: ask_all(of, asked), 50)
            yield row(f"{label}: warm", seconds, "ms", figure, warm)
            if fill == "half" and size == 500:
                yield row(f"{label}: no memory", _each_alone(of, asked), "ms", figure, figure and 2 * figure)


def _each_alone(of: Scene, asked: ResourceClaim) -> list[float]:
    seconds = []
    for _ in range(5):
        allocator = of.allocator()
        total = 0.0
        for node in of.nodes:
            allocator.inventory.caches.forget(EQUIVALENCES)
            prepared = allocator.prepare([asked])
            begin = thread_time()
            prepared.on(node)
            total += thread_time() - begin
        seconds.append(total)
    return seconds


def events() -> Iterator[Row]:
    """A stream of pods; what an event costs the next pod."""
    of = whole_gpus(5000)
    asked = simple()
    ask_all(of, asked)
    numbers = itertools.count()

    def one_pod() -> None:
        answers = of.allocator().prepare([asked]).on_each(of.nodes)
        outcome = answers[answers.fitting()[0]]
        assert isinstance(outcome, Allocation)
        of.ledger.assume(_named(next(numbers)), outcome.results[0])

    yield row("stream of pods on 5000 nodes, each allocated", timed(one_pod, 300), "ms", 145.0, 1.0)
    slices = [
        [
            from_dict(ResourceSlice, slice_of(node, [gpu(n, node + flip, unique=True) for n in range(PER_NODE)]))
            for node in range(200)
        ]
        for flip in (1, 0)
    ]
    renewed = itertools.cycle(itertools.chain(*slices))

    def after_slice() -> None:
        of.inventory.add_slice(next(renewed))
        ask_all(of, asked)

    yield row("next pod on 5000 nodes after a slice event, both", timed(after_slice, 300), "ms", 145.0, 5.0)


def _named(number: int) -> ResourceClaim:
    return from_dict(ResourceClaim, {"metadata": {"name": f"pod-{number}", "namespace": "default"}})


def hard() -> Iterator[Row]:
    """Instances on which an exhaustive search works hard."""
    for count, figure in ((20, "2,300"), (22, "7,900"), (24, "time-out"), (31, "time-out")):
        yield _alone(f"{count} devices, {count + 1} wanted", count, claim(request("gpus", count + 1)), figure)
    requests = [request(f"r{n}", 1) for n in range(17)]
    yield _alone("16 devices, 17 requests", 16, claim(*requests), None)
    tied = claim(request("gpus", 17), constraints=[{"matchAttribute": f"{DRIVER}/half"}])
    yield _alone("two halves of 16 devices, 17 of one wanted", 32, tied, None)
    loose = [request(f"l{n}", 1, f'device.attributes["{DRIVER}"].index in [{n}, {n + 12}]') for n in range(12)]
    tight = [request(f"t{n}", 1, f'device.attributes["{DRIVER}"].index == {n}') for n in range(12)]
    yield _alone("12 loose requests before 12 tight ones", 24, claim(*loose, *tight), None)
    of = partitions(1)
    of.inventory.snapshot()
    asked = claim(request("p", 8, attribute("profile", "1g")), request("q", 1, attribute("profile", "3g")))
    seconds = timed(lambda: of.allocator().prepare([asked]).on(of.nodes[0]), 20)
    yield row("eight small partitions and one of three, of seven", seconds, "ms", None, 50.0)


def groups() -> Iterator[Row]:
    """Pairs of a GPU and a NIC on one PCIe root: all fit, the first GPUs have no NIC, or one NIC is elsewhere.

    The walk exactly as Kubernetes does it (`ExhaustiveSearch`) stands beside, for as many states as its budget allows.
    """
    for pairs in (8, 16, 32):
        for label, gpus, nics in (
            ("fit", range(pairs), range(pairs)),
            ("fit far from the first GPU", range(pairs + 2), range(2, pairs + 2)),
            ("one NIC on a foreign root", range(pairs), range(1, pairs + 1)),
        ):
            of = Scene(nodes_of(1), Inventory(paired(gpus, nics)), Ledger())
            asked = [pairs_of(min(pairs, 16), f"c{number}") for number in range(-(-pairs // 16))]

            def ask(of: Scene = of, asked: list[ResourceClaim] = asked) -> None:
                allocator = of.allocator()
                allocator.inventory.caches.forget(EQUIVALENCES)
                allocator.allocate(of.nodes[0], asked)

            yield row(f"{pairs} pairs: {label}", timed(ask, 20), "ms", None, 50.0)
            begin = thread_time()
            ended = _walk(of, asked)
            yield row(f"{pairs} pairs: {label}: {ended}", [thread_time() - begin], "ms", None, None)


def paired(gpus: Iterable[int], nics: Iterable[int]) -> list[ResourceSlice]:
    """Slices of one node with a GPU and a NIC on each of these PCIe roots."""
    slices = []
    for kind, roots in (("gpu", gpus), ("nic", nics)):
        devices = [
            {"name": f"{kind}-{root}", "attributes": {"kind": {"string": kind}, ROOT: {"string": f"pci{root:03}"}}}
            for root in roots
        ]
        pool = {"name": kind, "generation": 1, "resourceSliceCount": 1}
        made = slice_of(0, devices, pool=pool)
        made["metadata"] = {"name": f"{kind}s"}
        slices.append(from_dict(ResourceSlice, made))
    return slices


def pairs_of(count: int, name: str) -> ResourceClaim:
    """Return a claim for a number of pairs, one constraint for each."""
    asked = [request(f"{kind}{n}", 1, attribute("kind", kind)) for kind in ("gpu", "nic") for n in range(count)]
    constraints = [{"requests": [f"gpu{n}", f"nic{n}"], "matchAttribute": ROOT} for n in range(count)]
    body = {"requests": asked, "constraints": constraints}
    return from_dict(ResourceClaim, {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": body}})


def _walk(of: Scene, asked: list[ResourceClaim]) -> str:
    """Walk as Kubernetes does, and return the outcome."""
    allocator = of.allocator()
    view = NodeSupplyCache(allocator.inventory, allocator.features).of(of.nodes[0])
    states = view.states(allocator.ledger, shares=allocator.features.consumable_capacity)
    problem = Problem(allocator.plans_of(asked), of.nodes[0], view, states, allocator.features)
    expand(problem)
    meter = Meter(Budget(states=WALK).begin())
    try:
        ExhaustiveSearch(problem, meter).run()
    except BudgetExceeded:
        return f"the walk, stopped after {WALK:,} states"
    return f"the walk, {meter.states:,} states"


def _alone(label: str, count: int, asked: ResourceClaim, figure: str | None) -> Row:
    devices = [{"name": f"gpu-{n}", "attributes": {"half": {"int": n % 2}, "index": {"int": n}}} for n in range(count)]
    inventory = Inventory([from_dict(ResourceSlice, slice_of(0, devices))])
    of = Scene(nodes_of(1), inventory, Ledger())

    def ask() -> None:
        allocator = of.allocator()
        allocator.inventory.caches.forget(EQUIVALENCES)
        allocator.allocate(of.nodes[0], [asked])

    return row(label, timed(ask, 20), "ms", figure, 50.0)


def process() -> Iterator[Row]:
    """Measure the cost of a process: import and memory."""
    with tempfile.TemporaryDirectory() as cache:
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment = clean | {"PYTHONPYCACHEPREFIX": cache}
        command = [sys.executable, "-X", "importtime", "-c", "import cathedra.allocation"]
        found = []
        for _ in range(9):
            said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
            found.append(int(said.splitlines()[-1].split("|")[1]) / 1e6)
    yield "import cathedra.allocation, -X importtime: best", min(found) * 1e3, "ms", None, 100.0
    code = (
        "from benchmarks import allocation as b\n"
        "of = b.whole_gpus(5000, 'half')\nassert b.ask_all(of, b.simple()) == 5000\n"
        "assert of.inventory.statistics()['devices'] == 40000 and of.ledger.statistics()['claims'] == 20000\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    label = "peak memory of a process: 5,000 nodes × 8 devices, 20,000 claims"
    yield label, int(said) * 1024 / 1e6, "MB", None, 400.0


def rows() -> Iterator[Row]:
    """All measurements: name, value, unit, Kubernetes' figure, goal."""
    yield from single_node()
    yield from all_nodes()
    yield from events()
    yield from hard()
    yield from groups()
    yield from process()


def main() -> int:
    """Print the table."""
    for name, value, unit, kubernetes, goal in rows():
        print(f"{name:<68} {value:>10.3f} {kubernetes or '–'!s:>10} {goal or '–'!s:>8}  {unit}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
