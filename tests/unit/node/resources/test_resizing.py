"""Whether a pod that runs may have other resources."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod, ResourceRequirements
from cathedra.api.quantity import Quantity
from cathedra.api.struct import from_dict
from cathedra.node.resources.resizing import Postponement, asks_for_resize, granted_pod, must_restart, postponement
from cathedra.releases import FeatureGates

GATES = FeatureGates.for_release("1.37")
NODE = {"cpu": Quantity("8"), "memory": Quantity("8Gi")}


def pod(cpu: str, memory: str = "1Gi", **container: Any) -> Pod:
    made = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **container}
    return from_dict(Pod, {"spec": {"containers": [made]}})


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        (pod("4"), None),
        (pod("6"), ("Deferred", "resource: cpu, requested: 6000, used: 3950, capacity: 8000")),
        (pod("9"), ("Infeasible", "capacity: cpu, requested: 9000, capacity: 8000")),
        (
            pod("1", "9Gi"),
            ("Infeasible", f"capacity: memory, requested: {9 * 2**30}, capacity: {8 * 2**30}"),
        ),
    ],
)
def test_more_than_there_is_comes_later_or_never(wanted: Pod, refusal: tuple[str, str] | None) -> None:
    found = postponement(wanted, NODE, [pod("3950m")], GATES)
    expected = None if refusal is None else Postponement(refusal[0], f"Node didn't have enough {refusal[1]}")
    assert found == expected


def test_what_was_granted_is_held_to_whatever_the_spec_asks_for() -> None:
    before, after = pod("1"), pod("2")
    granted = {one.name: one.resources for one in before.spec.containers}
    held = granted_pod(after, granted, None)
    assert held.spec.containers == before.spec.containers
    assert asks_for_resize(after, held)
    assert not asks_for_resize(before, held)


def test_a_container_restarts_for_the_resources_that_it_names() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    (container,) = pod("2", resizePolicy=policy).spec.containers
    other_cpu = from_dict(ResourceRequirements, {"requests": {"cpu": "1", "memory": "1Gi"}})
    other_memory = from_dict(ResourceRequirements, {"requests": {"cpu": "2", "memory": "2Gi"}})
    assert not must_restart(container, other_cpu)
    assert must_restart(container, other_memory)
