"""What a pod as a whole is held to, where the scenarios of tests/simulation do not show it."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict
from cathedra.node.resources.pods import as_quantities, page_size, pod_limits, pod_requirements, shares_of
from cathedra.releases import FeatureGates

GATES = FeatureGates.for_release("1.37")


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    made = [{"name": f"c{number}", "resources": each} for number, each in enumerate(containers)]
    return from_dict(Pod, {"spec": {"containers": made, **spec}, "status": {"qosClass": "Burstable"}})


def test_a_pod_is_limited_only_where_each_of_its_containers_is() -> None:
    limited, free = {"limits": {"cpu": "1", "memory": "1Gi"}}, {"limits": {"memory": "1Gi"}}
    found = pod_limits(pod(limited, free), GATES)
    assert (found.cpu_milli, found.memory) == (None, 2 * 2**30)
    assert pod_limits(pod(limited, limited), GATES).cpu_milli == 2000


def test_an_init_container_without_a_limit_leaves_the_pod_without() -> None:
    limited = {"limits": {"cpu": "1"}}
    assert pod_limits(pod(limited, initContainers=[{"name": "i"}]), GATES).cpu_milli is None


def test_overhead_is_added_to_limits_that_there_are() -> None:
    made = pod({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, overhead={"cpu": "100m", "memory": "1Mi"})
    requests, limits = pod_requirements(made, GATES)
    assert {name: str(amount) for name, amount in as_quantities(requests).items()} == {"cpu": "1100m", "memory": "1Mi"}
    assert limits == {"cpu": 2100 * 10**6}


def test_sizes_and_shares_are_spelled_as_the_kernel_does() -> None:
    assert page_size("hugepages-1Gi") == "1GB"
    assert [shares_of(0), shares_of(10**9)] == [2, 1024]
