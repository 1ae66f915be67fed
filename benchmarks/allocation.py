"""The allocator against Kubernetes' own: the same families of instances, at several sizes of cluster.

Kubernetes' figures are those of its Go allocator (1.37) on one processor of a machine of this kind. «Cold» is a pod
whose selector was never seen: it is compiled and asked. «Warm» is the next pod of the same sort. «First sight» adds
what is otherwise done when slices arrive. The answer for all nodes says for each of them whether the claims fit;
results are written out for the node that is chosen.

    python -m benchmarks allocation
    python benchmarks/allocation.py
"""

from __future__ import annotations

import gc
import statistics
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from cathedra.allocation import Allocation, Allocator, Features, Inventory, Ledger
from cathedra.api.core import core_v1
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict

Row = tuple[str, float, str, str | float | None, str | float | None]

DRIVER = "gpu.example.com"
PER_NODE = 8
CLASS = from_dict(
    DeviceClass,
    {
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    },
)


@dataclass(slots=True)
class Scene:
    """A cluster with its nodes."""

    nodes: list[core_v1.Node]
    inventory: Inventory
    ledger: Ledger
    features: Features

    def allocator(self) -> Allocator:
        """An allocator for this moment."""
        return Allocator(self.features, {"gpu": CLASS}, self.inventory.snapshot(), self.ledger.snapshot())


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


def scene(count: int, fill: str = "empty", *, unique: bool = False, features: Features | None = None) -> Scene:
    """Nodes with eight devices each; «half» leaves four of them free, «full» none."""
    inventory = Inventory(
        from_dict(ResourceSlice, slice_of(node, [gpu(number, node, unique=unique) for number in range(PER_NODE)]))
        for node in range(count)
    )
    ledger = Ledger()
    taken = {"empty": 0, "half": PER_NODE // 2, "full": PER_NODE}[fill]
    for node in range(count):
        for number in range(taken):
            ledger.add(holder(node, number))
    return Scene(nodes_of(count), inventory, ledger, features or Features())


def holder(node: int, number: int) -> ResourceClaim:
    """A claim that holds one device."""
    name = f"held-{node:05}-{number}"
    result = {"request": "r", "driver": DRIVER, "pool": f"node-{node:05}", "device": f"gpu-{number}"}
    return from_dict(
        ResourceClaim,
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "status": {"allocation": {"devices": {"results": [result]}}},
        },
    )


def partitions(count: int) -> Scene:
    """Nodes with one GPU in fourteen partitions that draw on seven counters."""
    features = Features()
    inventory = Inventory()
    for node in range(count):
        name = f"node-{node:05}"
        pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
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
        inventory.add_slice(from_dict(ResourceSlice, slice_of(node, devices, pool=pool)))
        sets: dict[str, Any] = slice_of(node, [], pool=pool, sharedCounters=[{"name": "gpu-0", "counters": counters}])
        sets["metadata"] = {"name": f"{name}-counters"}
        inventory.add_slice(from_dict(ResourceSlice, sets))
    return Scene(nodes_of(count), inventory, Ledger(), features)


def spanning(count: int) -> Scene:
    """One pool of which each node has a slice."""
    pool = {"name": "all", "generation": 1, "resourceSliceCount": count}
    inventory = Inventory(
        from_dict(
            ResourceSlice,
            slice_of(
                node, [gpu(n, node, unique=False) | {"name": f"gpu-{node}-{n}"} for n in range(PER_NODE)], pool=pool
            ),
        )
        for node in range(count)
    )
    return Scene(nodes_of(count), inventory, Ledger(), Features())


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


def model(name: str, salt: str = "") -> str:
    """A selector; a ``salt`` makes its text new without changing what it says."""
    return f'device.attributes["{DRIVER}"].model == "{name}"' + (f' && "{salt}" != ""' if salt else "")


SIMPLE = claim(request("gpu", 1))
SELECTED = claim(request("gpu", 1, model("a100")))
MATCHED = claim(request("gpus", 4), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
ALTERNATIVES = claim(
    {
        "name": "gpus",
        "firstAvailable": [
            {"name": name, **request("x", count, model(kind))["exactly"]}
            for name, count, kind in (("a", 8, "h100"), ("b", 4, "h100"), ("c", 2, "a100"))
        ],
    }
)
PARTITIONS = claim(
    *(request(f"p{size}", 1, f'device.attributes["{DRIVER}"].profile == "{size}g"') for size in (3, 2, 1))
)
EVERYTHING = claim(request("gpus", 0, allocationMode="All"))


def timed(action: Callable[[], object], times: int) -> list[float]:
    """Seconds of each run."""
    found = []
    for _ in range(times):
        begin = perf_counter()
        action()
        found.append(perf_counter() - begin)
    return found


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    ordered = sorted(seconds)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def ask_all(of: Scene, claims: list[ResourceClaim]) -> int:
    """Put a pod to all nodes and write out the first fitting answer; how many fit."""
    answers = of.allocator().prepare(claims).on_each(of.nodes)
    fitting = answers.fitting()
    if fitting:
        outcome = answers[fitting[0]]
        assert isinstance(outcome, Allocation)
    return len(fitting)


def single_node() -> Iterator[Row]:
    """One node, one device."""
    for size in (10, 500, 5000):
        of = scene(size, "half")
        allocator = of.allocator()
        allocator.prepare([SIMPLE]).on(of.nodes[0])

        def ask(node: core_v1.Node = of.nodes[size // 2], allocator: Allocator = allocator) -> None:
            allocator.prepare([SIMPLE]).on(node)

        p50, p99 = percentiles(timed(ask, 2000))
        yield f"one node of {size}, one device, prepare and ask: p50", p50 * 1e6, "µs", "10–16", 32.0
        yield f"one node of {size}, one device, prepare and ask: p99", p99 * 1e6, "µs", None, None
        prepared = allocator.prepare([SIMPLE])
        p50, p99 = percentiles(timed(lambda prepared=prepared, of=of: prepared.on(of.nodes[0]), 2000))
        yield f"one node of {size}, one device, prepared: p50", p50 * 1e6, "µs", "10–16", 32.0
        kubernetes = {500: "96", 5000: "470"}.get(size)
        holders = (holder(number % size, 7) for number in range(10**9))

        def make(of: Scene = of, holders: Iterator[ResourceClaim] = holders) -> None:
            of.ledger.add(next(holders))
            of.allocator()

        p50, p99 = percentiles(timed(make, 200))
        yield f"making the allocator after a claim event, {size} nodes: p50", p50 * 1e6, "µs", kubernetes, None


def all_nodes() -> Iterator[Row]:
    """One pod on all nodes, in every state of filling."""
    kubernetes = {(500, "half"): 14.0, (5000, "half"): 145.0}
    for size in (10, 500, 5000):
        for fill in ("empty", "half", "full"):
            of = scene(size, fill)
            label = f"one pod on all {size} nodes, {fill}"
            figure = kubernetes.get((size, fill))
            first = timed(lambda of=of: ask_all(of, [SIMPLE]), 1)[0]
            yield f"{label}: first sight", first * 1e3, "ms", figure, None
            salts = iter(range(10**6))

            def cold(of: Scene = of, salts: Iterator[int] = salts) -> None:
                ask_all(of, [claim(request("gpu", 1, model("a100", str(next(salts)))))])

            p50, p99 = percentiles(timed(cold, 30))
            yield f"{label}: cold, new selector, p50", p50 * 1e3, "ms", figure, 5.0
            yield f"{label}: cold, new selector, p99", p99 * 1e3, "ms", None, None
            ask_all(of, [SELECTED])
            p50, p99 = percentiles(timed(lambda of=of: ask_all(of, [SELECTED]), 100))
            yield f"{label}: warm, p50", p50 * 1e3, "ms", figure, 1.0
            yield f"{label}: warm, p99", p99 * 1e3, "ms", None, None
    of = scene(5000, "half", unique=True)
    ask_all(of, [SIMPLE])
    salts = iter(range(10**6))
    p50, _ = percentiles(timed(lambda: ask_all(of, [claim(request("gpu", 1, model("a100", str(next(salts)))))]), 5))
    yield "one pod on all 5000 nodes, half, serial numbers: cold, p50", p50 * 1e3, "ms", 145.0, 5.0
    p50, _ = percentiles(timed(lambda: ask_all(of, [SELECTED]), 5))
    yield "one pod on all 5000 nodes, half, serial numbers: warm, p50", p50 * 1e3, "ms", 145.0, 1.0


def after_each_pod() -> Iterator[Row]:
    """A stream of pods: each is allocated on a node, then the next is asked of all."""
    of = scene(5000, "empty")
    ask_all(of, [SIMPLE])

    numbers = iter(range(10**6))

    def one() -> None:
        answers = of.allocator().prepare([SIMPLE]).on_each(of.nodes)
        outcome = answers[answers.fitting()[0]]
        assert isinstance(outcome, Allocation)
        of.ledger.assume(named(next(numbers)), outcome.results[0])

    p50, p99 = percentiles(timed(one, 300))
    yield "stream of pods on 5000 nodes, each allocated: p50", p50 * 1e3, "ms", 145.0, 1.0
    yield "stream of pods on 5000 nodes, each allocated: p99", p99 * 1e3, "ms", None, None


def named(number: int) -> ResourceClaim:
    """A claim to be held."""
    return from_dict(ResourceClaim, {"metadata": {"name": f"pod-{number}", "namespace": "default"}})


def families() -> Iterator[Row]:
    """The other families, on all of 500 nodes; every node is asked as if it were the first."""
    for label, of, asked, figure in (
        ("four devices with matchAttribute", scene(500, "half"), MATCHED, 46.0),
        ("three alternatives", scene(500, "half"), ALTERNATIVES, 126.0),
        ("partitions with seven counters", partitions(500), PARTITIONS, 52.0),
        ("All mode", scene(500), EVERYTHING, 66.0),
        ("pool spanning 500 nodes", spanning(500), SIMPLE, 436.0),
    ):
        first = timed(lambda of=of, asked=asked: ask_all(of, [asked]), 1)[0]
        yield f"{label}, all of 500 nodes: first sight", first * 1e3, "ms", figure, figure / 5
        p50, p99 = percentiles(timed(lambda of=of, asked=asked: ask_all(of, [asked]), 50))
        yield f"{label}, all of 500 nodes: warm, p50", p50 * 1e3, "ms", figure, figure / 5
        yield f"{label}, all of 500 nodes: warm, p99", p99 * 1e3, "ms", None, None

        def each(of: Scene = of, asked: ResourceClaim = asked) -> None:
            allocator = of.allocator()
            for node in of.nodes:
                allocator.prepare([asked]).on(node)

        yield f"{label}, 500 nodes one by one, nothing shared", min(timed(each, 3)) * 1e3, "ms", figure, figure / 5


def hard() -> Iterator[Row]:
    """One device too few."""
    for count, figure in ((20, "2,300"), (22, "7,900"), (24, "time-out"), (31, "time-out")):
        of = scene(1)
        devices = [gpu(0, 0, unique=False) | {"name": f"gpu-{n}"} for n in range(count)]
        of.inventory.add_slice(from_dict(ResourceSlice, slice_of(0, devices)))
        asked = claim(request("gpus", count + 1))
        p50, _ = percentiles(timed(lambda of=of, asked=asked: of.allocator().allocate(of.nodes[0], [asked]), 20))
        yield f"{count} devices, {count + 1} wanted: p50", p50 * 1e3, "ms", figure, 50.0


def memory() -> Iterator[Row]:
    """5,000 nodes with eight devices each, and 20,000 allocated claims."""
    gc.collect()
    tracemalloc.start()
    of = scene(5000, "half", unique=True)
    ask_all(of, [SIMPLE])
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert of.inventory.statistics()["devices"] == 40_000
    yield "memory: 5,000 nodes × 8 devices, 20,000 allocated claims", used / 1e6, "MB", None, 400.0


def rows() -> Iterator[Row]:
    """All measurements: name, value, unit, Kubernetes' figure, goal."""
    yield from single_node()
    yield from all_nodes()
    yield from after_each_pod()
    yield from families()
    yield from hard()
    yield from memory()


def main() -> int:
    """Print the table."""
    for name, value, unit, kubernetes, goal in rows():
        print(f"{name:<72} {value:>12.3f} {kubernetes or '–'!s:>10} {goal or '–'!s:>8}  {unit}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
