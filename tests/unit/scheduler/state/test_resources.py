"""What a pod calls of its node (docs/spec/scheduling.md §17)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.resources import is_extended_resource, pod_requests
from tests.unit.scheduler.objects import pod


def container(cpu: str, *, sidecar: bool = False) -> dict[str, Any]:
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **policy}


@pytest.mark.parametrize(
    ("inits", "containers", "milli"),
    [
        ([], ["1", "500m"], 1500),
        ([container("4")], ["1", "1"], 4000),
        ([container("1", sidecar=True)], ["1"], 2000),
        ([container("1", sidecar=True), container("4")], ["1"], 5000),
        ([container("4"), container("1", sidecar=True)], ["1"], 4000),
        ([container("100u")], ["100u"], 1),
    ],
)
def test_init_containers_count_beside_the_sidecars_started_before(
    inits: list[dict[str, Any]], containers: list[str], milli: int
) -> None:
    asked = pod("p", initContainers=inits, containers=[container(cpu) for cpu in containers])
    assert pod_requests(asked)["cpu"] == milli


def test_overhead_is_added_after_pod_level_requests_override() -> None:
    asked = pod("p", requests={"cpu": "1"}, resources={"requests": {"cpu": "2"}}, overhead={"cpu": "100m"})
    assert pod_requests(asked)["cpu"] == 2100


def test_for_scoring_a_silent_container_counts_as_a_small_one() -> None:
    assert PodInfo(pod("p")).scoring_requests == (100, 200 * 1024**2)
    assert PodInfo(pod("p")).requests == {}


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/x", False),
        ("requests.acme.test/x", False),
        ("acme.test/fpga", True),
        ("deviceclass.resource.kubernetes.io/gpu", True),
    ],
)
def test_extended_resources_are_those_of_other_domains(name: str, *, extended: bool) -> None:
    assert is_extended_resource(name) is extended
