"""Devices that stand for, or need, CPU, memory and huge pages of their node: the scenarios O1 to O18 of
docs/spec/driver-sdk.md §20, with the figures of Kubernetes' own suite.

The pods' cgroups lie in a directory that stands for the kernel's unified hierarchy; what containers are held to is seen
where the runtime is told it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cathedra.api import resource
from cathedra.api.core.core_v1 import Pod, ResourceRequirements
from cathedra.api.quantity import Quantity
from cathedra.api.struct import from_dict, replace
from cathedra.client.resources import PODS
from cathedra.driver import Device
from cathedra.node.resources import cpu_weight, shares_of
from tests.simulation.actors import Actors, a_driver, play

GATES = ("--feature-gates", "DRANodeAllocatableResources=true")
MI = 2**20
NODE_MI = 32 * 1024


def mapped(name: str, **amounts: str) -> Device:
    """A device that stands for this much of the node."""
    made = {
        each: resource.NodeAllocatableResource(
            mapping=resource.NodeAllocatableMapping(device_multiplier=Quantity(value))
        )
        for each, value in amounts.items()
    }
    return Device(name, attributes={"name": name}, node_resources=made)


def overhead(name: str, **amounts: tuple[str, str]) -> Device:
    """A device that needs this much of the node per pod, and per container."""
    made = {each.replace("_", "-"): _overhead(*needed) for each, needed in amounts.items()}
    return Device(name, attributes={"name": name}, node_resources=made)


def _overhead(per_pod: str, per_container: str) -> resource.NodeAllocatableResource:
    needed = resource.NodeAllocatableOverhead(per_pod=Quantity(per_pod), per_container=Quantity(per_container))
    return resource.NodeAllocatableResource(overhead=needed)


def both(name: str) -> Device:
    devices = (mapped(name, **DIRECT), overhead(name, **OVERHEAD))
    resources = {
        each: resource.NodeAllocatableResource(
            mapping=devices[0].node_resources[each].mapping, overhead=devices[1].node_resources[each].overhead
        )
        for each in ("cpu", "memory")
    }
    return Device(name, attributes={"name": name}, node_resources=resources)


DIRECT = {"cpu": "1", "memory": "1000Mi"}
OVERHEAD = {"cpu": ("100m", "100m"), "memory": ("100Mi", "100Mi")}


def resources(cpu: tuple[str, str], memory: tuple[str, str]) -> dict[str, Any]:
    """Requests and limits; "" is left out."""
    kinds = {"requests": (cpu[0], memory[0]), "limits": (cpu[1], memory[1])}
    found = {kind: dict(zip(("cpu", "memory"), pair, strict=True)) for kind, pair in kinds.items()}
    return {kind: {name: value for name, value in values.items() if value} for kind, values in found.items()}


ONE_CPU = resources(("1", "2"), ("1Gi", "2Gi"))
HALF_OF_A_CPU = resources(("500m", "1"), ("500Mi", "1000Mi"))


@dataclass(frozen=True, slots=True)
class Case:
    """``pod`` and ``containers``: CPU request and limit in thousandths, memory limit in MiB; None: none, or as small
    as can be. ``scores``: the memory in MiB by which containers are killed."""

    devices: Sequence[Device]
    asked: Mapping[str, dict[str, Any]]
    pod: tuple[int | None, int | None, int | None]
    containers: Sequence[tuple[int | None, int | None, int | None]]
    scores: Sequence[int]
    claims: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"c1": ("a",), "c2": ("a",)})
    unused: Sequence[str] = ()
    own: dict[str, Any] | None = None
    quality: str = "Burstable"
    pages: tuple[int, int, int] | None = None
    """Huge pages in bytes, of the pod and its containers."""


TWO = {"c1": ONE_CPU, "c2": ONE_CPU}
NOTHING: dict[str, dict[str, Any]] = {"c1": {}, "c2": {}}
PAGES = overhead("a", hugepages_2Mi=("100Mi", "50Mi"))
WITH_PAGES: dict[str, dict[str, Any]] = {
    "c1": {kind: {**values, "hugepages-2Mi": "2Mi"} for kind, values in ONE_CPU.items()},
    "c2": ONE_CPU,
}
CASES = {
    "o1_direct_mapping": Case([mapped("a", **DIRECT)], TWO, (3000, 5000, 5096), [(1000, 3000, 3048)] * 2, [1524, 1524]),
    "o2_overhead": Case([overhead("a", **OVERHEAD)], TWO, (2300, 4300, 4396), [(1000, 2200, 2248)] * 2, [1174, 1174]),
    "o3_both_on_two_devices": Case(
        [mapped("a", **DIRECT), overhead("b", **OVERHEAD)],
        TWO,
        (3300, 5300, 5396),
        [(1000, 3200, 3248)] * 2,
        [1674, 1674],
        claims={"c1": ("a", "b"), "c2": ("a", "b")},
    ),
    "o4_both_on_one_device": Case([both("a")], TWO, (3300, 5300, 5396), [(1000, 3200, 3248)] * 2, [1674, 1674]),
    "o5_a_claim_that_no_container_uses": Case(
        [overhead("a", **OVERHEAD)],
        TWO,
        (2100, 4100, 4196),
        [(1000, 2000, 2048)] * 2,
        [1024, 1024],
        claims={"c1": (), "c2": ()},
        unused=("a",),
    ),
    "o6_resources_of_the_pod_with_limits_of_containers": Case(
        [overhead("a", **OVERHEAD)],
        TWO,
        (2500, 4000, 4096),
        [(1000, 2200, 2248)] * 2,
        [1250, 1250],
        own=resources(("2500m", "4"), ("2500Mi", "4Gi")),
    ),
    "o7_resources_of_the_pod_without": Case(
        [mapped("a", **DIRECT)],
        NOTHING,
        (2000, 4000, 4096),
        [(None, 4000, 4096)] * 2,
        [1024, 1024],
        own=resources(("2", "4"), ("2Gi", "4Gi")),
    ),
    "o8_huge_pages_with_limits": Case(
        [PAGES],
        WITH_PAGES,
        (2000, 4000, 4096),
        [(1000, 2000, 2048)] * 2,
        [1024, 1024],
        pages=(202 * MI, 152 * MI, 150 * MI),
    ),
    "o9_huge_pages_without": Case(
        [PAGES],
        NOTHING,
        (None, None, None),
        [(None, None, None)] * 2,
        [],
        quality="BestEffort",
        pages=(200 * MI, 150 * MI, 150 * MI),
    ),
    "o10_best_effort": Case(
        [mapped("a", **DIRECT)], NOTHING, (None, None, None), [(None, None, None)] * 2, [], quality="BestEffort"
    ),
    "o11_burstable_without_limits": Case(
        [mapped("a", **DIRECT)],
        dict.fromkeys(("c1", "c2"), resources(("1", ""), ("1Gi", ""))),
        (3000, None, None),
        [(1000, None, None)] * 2,
        [1524, 1524],
    ),
    "o12_guaranteed": Case(
        [mapped("a", **DIRECT)],
        dict.fromkeys(("c1", "c2"), resources(("1", "1"), ("1Gi", "1Gi"))),
        (3000, 3000, 3048),
        [(1000, 2000, 2024)] * 2,
        [],
        quality="Guaranteed",
    ),
    "o13_two_claims_in_two_containers": Case(
        [mapped("a", cpu="100m", memory="1000Mi"), mapped("b", cpu="100m", memory="2000Mi")],
        dict.fromkeys(("c1", "c2"), resources(("100m", "200m"), ("1Gi", "2Gi"))),
        (400, 600, 7096),
        [(100, 300, 3048), (100, 300, 4048)],
        [2024, 3024],
        claims={"c1": ("a",), "c2": ("b",)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pod_and_containers_are_held_to_what_claims_add(name: str, tmp_path: Path) -> None:
    case = CASES[name]

    async def scene(on: Actors) -> None:
        await a_pod_of(on, case)
        await on.settle()
        pod = await on.pod("tester")
        assert pod.status.phase == "Running", pod.status.conditions
        assert pod.status.qos_class == case.quality
        assert cgroup_of(tmp_path, pod) == written(*case.pod)
        if case.pages is not None:
            assert int(read(tmp_path, pod, "hugetlb.2MB.max")) == case.pages[0]
        for position, wanted in enumerate(case.containers):
            spec = on.container(pod, f"c{position + 1}")
            assert held_to(spec.limits) == wanted
            assert spec.cgroup_parent == f"/simulated{place(pod)}"
            assert spec.limits.oom_score_adj == score(case, position)
            if case.pages is not None:
                assert spec.limits.huge_pages == {"2MB": case.pages[position + 1]}

    play(scene, *GATES, drivers=[a_driver(*case.devices)], cgroups=tmp_path)


def score(case: Case, position: int) -> int:
    by_quality = {"Guaranteed": -997, "BestEffort": 1000}
    return by_quality.get(case.quality) or 1000 - 1000 * case.scores[position] // NODE_MI


async def a_pod_of(on: Actors, case: Case) -> None:
    """``tester``, each of whose claims has the device of its name."""
    await on.a_class()
    for device in case.devices:
        selector = {"cel": {"expression": f'device.attributes["{on.driver}"].name == "{device.name}"'}}
        await on.a_claim(device.name, {"name": "r", "exactly": {"deviceClassName": "class", "selectors": [selector]}})
    containers = [
        {"name": name, "image": "debian", "resources": {**asked, "claims": [{"name": c} for c in case.claims[name]]}}
        for name, asked in case.asked.items()
    ]
    used = sorted({claim for claims in case.claims.values() for claim in claims} | set(case.unused))
    body = {
        "metadata": {"name": "tester"},
        "spec": {
            "restartPolicy": "Never",
            "resourceClaims": [{"name": name, "resourceClaimName": name} for name in used],
            "containers": containers,
            **({} if case.own is None else {"resources": case.own}),
        },
    }
    await on.stage.client.resource(PODS, "default").create(from_dict(Pod, body))


def place(pod: Pod) -> str:
    """The pod's cgroup below that of the node."""
    quality = {"Guaranteed": "", "Burstable": "/burstable", "BestEffort": "/besteffort"}[pod.status.qos_class]
    return f"/kubepods{quality}/pod{pod.metadata.uid}"


def read(mount: Path, pod: Pod, name: str) -> str:
    return (mount / "simulated" / place(pod).lstrip("/") / name).read_text()


def cgroup_of(mount: Path, pod: Pod) -> tuple[str, str, str]:
    return read(mount, pod, "cpu.weight"), read(mount, pod, "cpu.max"), read(mount, pod, "memory.max")


def written(request: int | None, limit: int | None, memory: int | None) -> tuple[str, str, str]:
    """CPU weight, CPU limit and memory as the kernel is told them."""
    quota = "max" if limit is None else str(limit * 100)
    most = "max" if memory is None else str(memory * MI)
    return str(cpu_weight(shares_of((request or 0) * 10**6))), f"{quota} 100000", most


def held_to(limits: Any) -> tuple[int | None, int | None, int | None]:
    """CPU request and limit in thousandths, memory in MiB."""
    request = None if limits.cpu_shares == 2 else round(limits.cpu_shares * 1000 / 1024)
    return request, limits.cpu_milli, None if limits.memory is None else limits.memory // MI


@dataclass(frozen=True, slots=True)
class Resize:
    """One container ``c1`` with a claim, and what pod and container have after their resources have changed."""

    device: Device
    before: dict[str, Any]
    after: dict[str, Any]
    pod: tuple[int, int, int]
    container: tuple[int | None, int, int]
    allocated: dict[str, str]
    """Of the pod; claims included."""
    container_allocated: dict[str, str]
    own: tuple[dict[str, Any], dict[str, Any]] | None = None


POD_OF_TWO = resources(("2", "4"), ("2Gi", "4Gi"))
RESIZES = {
    "o14_direct_mapping": Resize(
        mapped("a", **DIRECT),
        HALF_OF_A_CPU,
        resources(("500m", "1500m"), ("1000Mi", "2000Mi")),
        (1500, 2500, 3000),
        (500, 2500, 3000),
        {"cpu": "1500m", "memory": "2000Mi"},
        {"cpu": "500m", "memory": "1000Mi"},
    ),
    "o15_overhead": Resize(
        overhead("a", **OVERHEAD),
        ONE_CPU,
        resources(("1500m", "2500m"), ("1500Mi", "3000Mi")),
        (1700, 2700, 3200),
        (1500, 2700, 3200),
        {"cpu": "1700m", "memory": "1700Mi"},
        {"cpu": "1500m", "memory": "1500Mi"},
    ),
    "o16_the_pod_without_values_of_its_container": Resize(
        mapped("a", **DIRECT),
        {},
        {},
        (3000, 5000, 5120),
        (None, 5000, 5120),
        {"cpu": "3", "memory": "3Gi"},
        {},
        own=(POD_OF_TWO, resources(("3", "5"), ("3Gi", "5Gi"))),
    ),
    "o17_the_pod_with_values_of_its_container": Resize(
        mapped("a", **DIRECT),
        ONE_CPU,
        ONE_CPU,
        (3000, 6000, 6144),
        (1000, 3000, 3048),
        {"cpu": "3", "memory": "3Gi"},
        {"cpu": "1", "memory": "1Gi"},
        own=(POD_OF_TWO, resources(("3", "6"), ("3Gi", "6Gi"))),
    ),
    "o18_the_container_in_a_pod_with_resources": Resize(
        mapped("a", **DIRECT),
        {},
        ONE_CPU,
        (2000, 4000, 4096),
        (1000, 3000, 3048),
        {"cpu": "2", "memory": "2Gi"},
        {"cpu": "1", "memory": "1Gi"},
        own=(POD_OF_TWO, POD_OF_TWO),
    ),
}


@pytest.mark.parametrize("name", RESIZES)
def test_a_resize_in_place_recomputes_limits_with_what_claims_add(name: str, tmp_path: Path) -> None:
    case = RESIZES[name]

    async def scene(on: Actors) -> None:
        own = None if case.own is None else case.own[0]
        await a_pod_of(on, Case([case.device], {"c1": case.before}, (0, 0, 0), [], [], {"c1": ("a",)}, own=own))
        await on.settle()
        assert await on.phase("tester") == "Running"
        await resize(on, case.after, None if case.own is None else case.own[1])
        await on.settle()
        pod = await on.pod("tester")
        assert cgroup_of(tmp_path, pod) == written(*case.pod)
        assert held_to(on.container(pod, "c1").limits) == case.container
        assert quantities(pod.status.allocated_resources) == quantities(case.allocated)
        (status,) = pod.status.container_statuses
        assert quantities(status.allocated_resources) == quantities(case.container_allocated)
        assert status.restart_count == 0
        assert not [one for one in pod.status.conditions if one.type.startswith("PodResize")]
        for what in ("started", "completed"):
            (told,) = await on.events(f"Resize{what.capitalize()}")
            assert told.startswith(f'Pod resize {what}: {{"containers":[{{"name":"c1","resources":')

    play(scene, *GATES, drivers=[a_driver(case.device)], cgroups=tmp_path)


async def resize(on: Actors, container: dict[str, Any], own: dict[str, Any] | None) -> None:
    pods = on.stage.client.resource(PODS, "default")
    pod = await pods.get("tester")
    (found,) = pod.spec.containers
    changed = replace(from_dict(ResourceRequirements, container), claims=found.resources.claims)
    whole = None if own is None else from_dict(ResourceRequirements, own)
    spec = replace(pod.spec, containers=(replace(found, resources=changed),), resources=whole)
    await pods.update(replace(pod, spec=spec), subresource="resize")


def quantities(amounts: Mapping[str, Any]) -> dict[str, int]:
    return {name: Quantity(str(value)).nanos for name, value in amounts.items()}
