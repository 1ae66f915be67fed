"""Requests of a pod to its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import NodeAllocatableResourceClaimStatus, Pod, PodStatus, ResourceRequirements
from cathedra.api.quantity import Quantity
from cathedra.api.struct import from_dict, replace
from cathedra.semantics.podresources import (
    claims_share_of_container,
    claims_share_of_pod,
    container_totals,
    nanos,
    pod_held_limit_quantities,
    pod_held_nanos,
    pod_held_quantities,
    pod_limit_quantities,
    pod_request_nanos,
    pod_request_quantities,
    reported_resources,
    reports_resources,
)
from tests.costs import costs_less_than

CPU = 10**9


def pod(
    containers: Sequence[Mapping[str, str]], inits: Sequence[tuple[Mapping[str, str], bool]] = (), **spec: Any
) -> Pod:
    """Return a pod whose containers have these requests, also as limits; inits are marked as sidecars or not."""

    def container(name: str, asked: Mapping[str, str], **more: Any) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": dict(asked), "limits": dict(asked)}, **more}

    steps = [
        container(f"i{number}", asked, **({"restartPolicy": "Always"} if stays else {}))
        for number, (asked, stays) in enumerate(inits)
    ]
    mains = [container(f"c{number}", asked) for number, asked in enumerate(containers)]
    return from_dict(Pod, {"spec": {"containers": mains, "initContainers": steps, **spec}})


def asked(made: Pod) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in pod_request_quantities(made).items()}


def test_containers_add_up_and_the_largest_step_of_initialisation_may_be_more() -> None:
    assert asked(pod([{"cpu": "1"}, {"cpu": "500m", "memory": "1Gi"}])) == {"cpu": "1500m", "memory": "1Gi"}
    assert asked(pod([{"cpu": "1"}], [({"cpu": "3"}, False), ({"cpu": "2"}, False)])) == {"cpu": "3"}


def test_a_sidecar_counts_with_the_containers_and_with_every_later_step() -> None:
    made = pod([{"cpu": "1"}], [({"cpu": "2"}, False), ({"cpu": "1"}, True), ({"cpu": "2500m"}, False)])
    assert asked(made) == {"cpu": "3500m"}


def test_pod_level_requests_override_what_they_may_and_overhead_comes_last() -> None:
    made = pod(
        [{"cpu": "1", "memory": "1Gi", "example.com/x": "1"}],
        resources={"requests": {"cpu": "4", "example.com/x": "7"}},
        overhead={"cpu": "100m"},
    )
    assert asked(made) == {"cpu": "4100m", "memory": "1Gi", "example.com/x": "1"}


def test_overhead_is_added_only_to_limits_that_there_are() -> None:
    made = pod([{"cpu": "1"}], overhead={"cpu": "100m", "memory": "1Mi"})
    assert {name: str(q) for name, q in pod_limit_quantities(made).items()} == {"cpu": "1100m"}


def test_defaults_fill_in_for_containers_that_do_not_say() -> None:
    made = pod([{"cpu": "0"}, {}])
    assert pod_request_nanos(made, (), {"cpu": Quantity("100m")}) == {"cpu": CPU // 10}


def test_what_claims_take_counts_per_pod_and_once_for_each_container_that_refers_to_them() -> None:
    claim = from_dict(
        NodeAllocatableResourceClaimStatus,
        {
            "resourceClaimName": "c",
            "containers": ["c0", "c1"],
            "mapping": [{"name": "cpu", "quantity": "2"}],
            "overhead": [{"name": "cpu", "perPod": "1", "perContainer": "500m"}],
        },
    )
    assert claims_share_of_pod([claim]) == {"cpu": 4 * CPU}
    assert claims_share_of_container([claim], "c1") == {"cpu": 3 * CPU + CPU // 2}
    assert claims_share_of_container([claim], "other") == {}
    assert pod_request_nanos(pod([{"cpu": "1"}]), [claim]) == {"cpu": 5 * CPU}


def resized(asked: str, granted: str, effective: str, *, pending: str = "", **spec: Any) -> Pod:
    """A pod of one container whose cpu is being changed; "" for what the kubelet does not report."""
    report: dict[str, Any] = {"name": "c0"}
    if granted:
        report["allocatedResources"] = {"cpu": granted}
    if effective:
        report["resources"] = {"requests": {"cpu": effective}}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": pending}] if pending else []
    made = pod([{"cpu": asked}], **spec)
    return replace(made, status=from_dict(PodStatus, {"containerStatuses": [report], "conditions": conditions}))


@pytest.mark.parametrize(
    ("made", "cpus"),
    [
        (resized("1", "", ""), 1),
        (resized("1", "2", "3"), 3),
        (resized("1", "3", "2"), 3),
        (resized("4", "2", "2"), 4),
        (resized("4", "2", "", pending="Deferred"), 4),
        (resized("4", "2", "1", pending="Infeasible"), 2),
        (resized("1", "2", "", overhead={"cpu": "1"}), 3),
    ],
)
def test_a_pod_that_is_resized_holds_the_largest_of_asked_granted_and_effective(made: Pod, cpus: int) -> None:
    assert pod_held_nanos(made, ()) == {"cpu": cpus * CPU}


@pytest.mark.parametrize(("pending", "cpus"), [("", 6), ("Deferred", 6), ("Infeasible", 4)])
def test_pod_level_resources_are_resized_too_and_their_report_includes_overhead(pending: str, cpus: int) -> None:
    conditions = [{"type": "PodResizePending", "status": "True", "reason": pending}]
    status = {"allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "3"}}, "conditions": conditions}
    made = pod([{"cpu": "1"}], resources={"requests": {"cpu": "5"}}, overhead={"cpu": "1"})
    made = replace(made, status=from_dict(PodStatus, status))
    assert pod_held_nanos(made, ()) == {"cpu": cpus * CPU}


def test_a_pod_without_a_report_holds_what_it_asks_for() -> None:
    made = pod([{"cpu": "1"}], [({"cpu": "3"}, False)], overhead={"memory": "1"})
    assert pod_held_nanos(made, ()) == pod_request_nanos(made, ())


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 9).map(str))


@given(st.lists(AMOUNTS, max_size=3), st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=4))
def test_quantities_and_nano_units_agree(
    containers: list[dict[str, str]], inits: list[tuple[dict[str, str], bool]]
) -> None:
    made = pod(containers, inits)
    quantities = container_totals(made, lambda container: container.resources.requests)
    assert nanos(quantities) == container_totals(made, lambda container: nanos(container.resources.requests))
    assert nanos(pod_request_quantities(made)) == pod_request_nanos(made, ())


@given(st.lists(AMOUNTS, max_size=3), st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=4))
def test_no_moment_of_the_pods_life_needs_more_than_it_asks_for(
    containers: list[dict[str, str]], inits: list[tuple[dict[str, str], bool]]
) -> None:
    total = pod_request_nanos(pod(containers, inits), ())

    def of(parts: list[dict[str, str]]) -> int:
        return sum(int(part.get("cpu", "0")) * CPU for part in parts)

    moments = []
    for position, (step, stays) in enumerate(inits):
        earlier = [part for part, goes_on in inits[:position] if goes_on]
        moments.append(of([*earlier, step]))
        del stays
    moments.append(of([*containers, *(part for part, stays in inits if stays)]))
    assert total.get("cpu", 0) == max(moments)


@pytest.mark.parametrize(("pending", "limit"), [("", "4"), ("Deferred", "4"), ("Infeasible", "2")])
def test_limits_of_a_pod_that_is_resized_are_the_larger_of_stated_and_in_effect(pending: str, limit: str) -> None:
    made = resized("1", "1", "1", pending=pending)
    report = replace(
        made.status.container_statuses[0], resources=from_dict(ResourceRequirements, {"limits": {"cpu": "2"}})
    )
    container = replace(made.spec.containers[0], resources=from_dict(ResourceRequirements, {"limits": {"cpu": "4"}}))
    made = replace(
        made,
        spec=replace(made.spec, containers=(container,)),
        status=replace(made.status, container_statuses=(report,)),
    )
    assert {name: str(amount) for name, amount in pod_held_limit_quantities(made).items()} == {"cpu": limit}


def test_held_quantities_keep_the_form_in_which_they_are_stated() -> None:
    assert {name: str(amount) for name, amount in pod_held_quantities(resized("1500m", "1", "1")).items()} == {
        "cpu": "1500m"
    }
    assert {name: str(amount) for name, amount in pod_held_quantities(resized("1", "2", "2")).items()} == {"cpu": "2"}
    plain = resized("1", "", "")
    assert pod_held_quantities(plain) == pod_request_quantities(plain)
    assert pod_held_limit_quantities(plain) == pod_limit_quantities(plain)


PARTS: Mapping[str, Any] = {
    "phase": "Pending",
    "resources": {"requests": {"cpu": "1"}},
    "allocatedResources": {"cpu": "2"},
    "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "one"}],
    "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "5"}}],
    "initContainerStatuses": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}],
    "conditions": [{"type": "PodScheduled", "status": "True"}],
}
PENDING = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
STATUSES = st.tuples(st.sets(st.sampled_from(sorted(PARTS))), st.booleans()).map(
    lambda made: {name: PARTS[name] for name in made[0]} | ({"conditions": [PENDING]} if made[1] else {})
)


@given(STATUSES)
def test_a_status_reports_resources_if_it_has_some_or_claims_take_some_of_the_node(status: dict[str, Any]) -> None:
    made = from_dict(Pod, {"status": status})
    assert reports_resources(made) == any(
        (*reported_resources(made), made.status.node_allocatable_resource_claim_statuses)
    )


def test_thousands_of_sidecars_with_resources_of_their_own_are_added_up_in_one_pass() -> None:
    count = 30_000
    made = pod([{"cpu": "1"}], [({f"example.com/r{number}": "1"}, number % 2 == 0) for number in range(count)])
    with costs_less_than(3):
        total = container_totals(made, lambda container: nanos(container.resources.requests))
    assert len(total) == count + 1
    assert set(total.values()) == {CPU}
