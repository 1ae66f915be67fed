"""The tools over a cluster of 1000 nodes with 8 devices each.

The state is read once, and the goals hold for the questions alone: a live cluster or a JSON dump of that size is read
in about a second beside them. Figures are the median of three runs; a simulation runs once. Time is the processor time
of the one thread that works, so that a busy machine does not count as slowness.

    python -m benchmarks insight
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import thread_time
from typing import Any

import yaml

from benchmarks import advisor
from cathedra.api.resource import ResourceClaimConsumerReference
from cathedra.api.struct import replace
from cathedra.insight import ClusterState, PlannedChanges, convert, devices, explain, lint, match, read_dump, simulate

Row = tuple[str, float, str, str | float | None, str | float | None]

NODES = 1000
PER_NODE = 8
MANIFESTS = 100
CLAIMS = 4000
PODS = 2000
DUMPED_NODES = 500
DUMPED = 4000
DRIVER = "gpu.example.com"
RESOURCE = "resource.k8s.io/v1"


def objects(claims: int) -> Iterator[dict[str, Any]]:
    """Nodes, slices, a class, and claims that hold the first devices of the nodes."""
    expression = f'device.driver == "{DRIVER}"'
    yield {
        "apiVersion": RESOURCE,
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    yield {"apiVersion": "v1", "kind": "PodList", "items": []}
    for number in range(NODES):
        name = f"node-{number}"
        status = {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"}}
        labels = {"kubernetes.io/hostname": name, "zone": f"z{number % 3}"}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
        given = [
            {
                "name": f"gpu-{place}",
                "attributes": {
                    "model": {"string": "a100" if number % 4 else "h100"},
                    "numa": {"int": place // 4},
                    "uuid": {"string": f"GPU-{number}-{place}"},
                },
                "capacity": {"memory": {"value": "80Gi"}},
            }
            for place in range(PER_NODE)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        yield {
            "apiVersion": RESOURCE,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-gpus"},
            "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": given},
        }
    for number in range(claims):
        result = {
            "request": "gpu",
            "driver": DRIVER,
            "pool": f"node-{number * 7 % NODES}",
            "device": f"gpu-{number // NODES}",
        }
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
        yield {
            "apiVersion": RESOURCE,
            "kind": "ResourceClaim",
            "metadata": {"name": f"held-{number}", "namespace": "default", "uid": f"held-{number}"},
            "spec": {"devices": {"requests": [request]}},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }


def waiting(name: str, count: int, *selectors: str) -> list[dict[str, Any]]:
    """Return a pod, and a template that requests that number of devices."""
    chosen = [{"cel": {"expression": text}} for text in selectors]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, "selectors": chosen}
    claim = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
    return [
        {
            "apiVersion": RESOURCE,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"spec": claim},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {
                "containers": [{"name": "main", "image": "main", "resources": {"requests": {"cpu": "1"}}}],
                "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": name}],
            },
            "status": {"phase": "Pending"},
        },
    ]


def manifests() -> list[str]:
    """Texts of manifests, each with a pod and the template of its claim."""
    selector = f'device.attributes["{DRIVER}"].model == "a100" && device.attributes["{DRIVER}"].numa == 1'
    return [
        yaml.safe_dump_all(waiting(f"train-{number}", number % 8 + 1, selector), sort_keys=False)
        for number in range(MANIFESTS)
    ]


def many(pods: int) -> list[dict[str, Any]]:
    """Return a number of pods with a device each."""
    template, pod = waiting("web", 1)
    made = [{**pod, "metadata": {"name": f"web-{number}", "namespace": "default"}} for number in range(pods)]
    return [template, *made]


def measured(make: Callable[[], ClusterState], ask: Callable[[ClusterState], object], runs: int = 3) -> float:
    """Return the seconds of one question on a fresh state."""
    times = []
    for _ in range(runs):
        state = make()
        began = thread_time()
        ask(state)
        times.append(thread_time() - began)
    return statistics.median(times)


def dumped() -> bytes:
    """A JSON dump of 500 nodes with 8 devices each, with 4,000 running pods and their claims, and a pod that waits."""
    plain = [one for one in objects(DUMPED) if one["kind"] != "PodList"]
    plain = [one for one in plain if not (one["metadata"]["name"].startswith("node-") and _number(one) >= DUMPED_NODES)]
    for number, claim in enumerate(one for one in plain if one["kind"] == "ResourceClaim"):
        result = claim["status"]["allocation"]["devices"]["results"][0]
        result["pool"], result["device"] = f"node-{number % DUMPED_NODES}", f"gpu-{number // DUMPED_NODES}"
        name = claim["metadata"]["name"]
        claim["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": name}]
        _, pod = waiting(name, 1)
        pod["spec"] |= {"nodeName": result["pool"], "resourceClaims": [{"name": "gpus", "resourceClaimName": name}]}
        plain.append({**pod, "status": {"phase": "Running"}})
    plain += waiting("too-many", 4)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": plain}, indent=4).encode()


def _number(one: dict[str, Any]) -> int:
    """The number in the name of a node or its slice."""
    return int(one["metadata"]["name"].split("-")[1])


REPLICAS = 1000


def large() -> ClusterState:
    """The cluster of the advisor's benchmark: nodes, devices, running pods with claims, and pods of ten forms that
    wait."""
    plain: list[dict[str, Any]] = [one for one in objects(0) if one["kind"] == "DeviceClass"]
    plain.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    makers: tuple[Callable[[int], Any], ...] = (advisor.node, advisor.slice_of)
    made: list[Any] = [make(number) for make in makers for number in range(advisor.NODES_OF)]
    for number in range(advisor.CLAIMS):
        name = f"run-{number}"
        held = advisor.claim(f"held-{number}", 1, number=number)
        consumer = ResourceClaimConsumerReference(resource="pods", name=name, uid=name)
        used = replace(held.status, reserved_for=(consumer,))
        made += [replace(held, status=used), advisor.pod(name, f"held-{number}", f"node-{number % advisor.NODES_OF}")]
    made += [advisor.waiting(number)[0] for number in range(advisor.SORTS)]
    made += [advisor.waiting(number)[1] for number in range(advisor.PENDING)]
    return read_dump(plain).including(
        replace(one, metadata=replace(one.metadata, uid=one.metadata.name)) for one in made
    )


def deployment(replicas: int) -> list[dict[str, Any]]:
    """A deployment of pods with one device each, and the template of their claims."""
    template, pod = waiting("web", 1)
    labels = {"app": "web"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
    }
    metadata = {"name": "web", "namespace": "default"}
    return [template, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}]


def command_seconds() -> float:
    """Processor time of ``kubectl dra explain`` on that dump, from start to exit."""
    command = [sys.executable, "-c", "import sys; from cathedra.cli.entry import kubectl_dra; sys.exit(kubectl_dra())"]
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder, "dump.json")
        dump.write_bytes(dumped())
        # The first run fills the cache of byte code, as an installation has it.
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        times = []
        for _ in range(4):
            began = _children_seconds()
            subprocess.run(
                [*command, "explain", "pod/too-many", "--dump", str(dump)],
                env=environment,
                stdout=subprocess.DEVNULL,
                check=False,
            )
            times.append(_children_seconds() - began)
    return statistics.median(times[1:])


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows() -> Iterator[Row]:
    """The rows of ``make bench``."""
    yield (
        f"insight/explain, command, JSON dump of {DUMPED_NODES} nodes, {DUMPED} pods",
        command_seconds(),
        "s",
        None,
        0.5,
    )
    plain = [*objects(CLAIMS), *waiting("too-many", 7), *waiting("picky", 2, f'device.attributes["{DRIVER}"].gen == 5')]
    size = f"{NODES} nodes × {PER_NODE}, {CLAIMS} claims"

    def fresh() -> ClusterState:
        return read_dump(plain)

    began = thread_time()
    fresh()
    yield f"insight/read a dump of {size}", thread_time() - began, "s", None, None
    yield (
        f"insight/explain a pod that wants too many, {size}",
        measured(fresh, lambda state: explain(state, "pod/too-many")),
        "s",
        None,
        2,
    )
    yield (
        f"insight/explain a pod with a failing selector, {size}",
        measured(fresh, lambda state: explain(state, "pod/picky")),
        "s",
        None,
        2,
    )
    yield f"insight/devices, {size}", measured(fresh, devices), "s", None, 1
    texts = manifests()
    yield (
        f"insight/lint {MANIFESTS} manifests",
        measured(lambda: read_dump([]), lambda _: lint(texts)),
        "s",
        None,
        1,
    )
    yield (
        f"insight/lint {MANIFESTS} manifests against {size}",
        measured(fresh, lambda state: lint(texts, against=state)),
        "s",
        None,
        None,
    )
    yield (
        f"insight/convert {MANIFESTS} manifests to v1beta1",
        measured(lambda: read_dump([]), lambda _: convert(texts, "v1beta1")),
        "s",
        None,
        1,
    )
    selector = f'device.attributes["{DRIVER}"].model == "h100" && device.attributes["{DRIVER}"].numa == 1'
    yield f"insight/match, {size}", measured(fresh, lambda state: match(state, selector)), "s", None, 2
    empty = [*objects(0)]
    yield (
        f"insight/simulate {PODS} pods on {NODES} nodes × {PER_NODE}",
        measured(
            lambda: read_dump(empty), lambda state: simulate(state, PlannedChanges(apply=many(PODS)), copies=0), runs=1
        ),
        "s",
        None,
        30,
    )
    size = f"{advisor.NODES_OF} nodes × {advisor.PER_NODE}, {advisor.CLAIMS} claims, {advisor.PENDING} pods wait"
    yield (
        f"insight/simulate {REPLICAS} replicas, {size}",
        measured(large, lambda state: simulate(state, PlannedChanges(apply=deployment(REPLICAS)), copies=0), runs=1),
        "s",
        None,
        6,
    )
