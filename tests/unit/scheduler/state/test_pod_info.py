"""What the scheduler reads off a pod."""

from __future__ import annotations

from cathedra.api.core.core_v1 import NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.state.pod_info import PodInfo, selector_with_keys
from tests.unit.scheduler.objects import pod


def taken(cpu: str) -> NodeAllocatableResourceClaimStatus:
    return from_dict(
        NodeAllocatableResourceClaimStatus,
        {"resourceClaimName": "c", "containers": ["c"], "mapping": [{"name": "cpu", "quantity": cpu}]},
    )


def test_requests_are_whole_units_without_zeros() -> None:
    info = PodInfo(pod("p", requests={"cpu": "1500m", "memory": "1Ki", "a.test/b": "0"}))
    assert info.requests == {"cpu": 1500, "memory": 1024}


def test_a_container_that_asks_for_nothing_scores_as_a_small_one() -> None:
    assert PodInfo(pod("p")).requests == {}
    assert PodInfo(pod("p")).scoring_requests == (100, 200 * 1024 * 1024)
    assert PodInfo(pod("p", requests={"cpu": "0"})).scoring_requests[0] == 0


def test_devices_that_take_of_the_node_are_counted_where_the_pod_goes() -> None:
    info = PodInfo(pod("p", requests={"cpu": "1"}))
    assert info.on("n", (taken("2"),)).requests == {"cpu": 3000}
    assert info.on("n").requests == {"cpu": 1000}
    assert info.on("n").pod.spec.node_name == "n"


def test_what_was_derived_is_kept_while_spec_and_labels_stay() -> None:
    info = PodInfo(pod("p", requests={"cpu": "1"}))
    first = info.requests
    touched: Pod = replace(info.pod, metadata=replace(info.pod.metadata, annotations={"a": "b"}))
    assert info.with_pod(touched).requests is first
    grown = pod("p", requests={"cpu": "2"})
    assert info.with_pod(grown).requests == {"cpu": 2000}


def test_ports_are_those_of_containers_that_go_on() -> None:
    def container(name: str, port: int, **more: str) -> dict[str, object]:
        return {"name": name, "ports": [{"containerPort": 80, "hostPort": port}], **more}

    made = pod(
        "p",
        containers=[container("main", 1)],
        initContainers=[container("step", 2), container("sidecar", 3, restartPolicy="Always")],
    )
    assert [port for _, _, port in PodInfo(made).host_ports] == [1, 3]


def test_anti_affinity_weighs_against() -> None:
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    weighted = [{"weight": 7, "podAffinityTerm": term}]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    info = PodInfo(pod("p", affinity={"podAffinity": preferred, "podAntiAffinity": preferred}))
    assert [one.weight for one in info.preferred_terms] == [7, -7]
    assert info.has_affinity
    assert not PodInfo(pod("q")).has_affinity


def test_a_selector_can_be_narrowed_to_the_pods_own_values() -> None:
    spec = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    term = PodInfo(
        pod("p", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [spec]}})
    ).pod.spec.affinity
    assert term is not None
    assert term.pod_affinity is not None
    selector = term.pod_affinity.required_during_scheduling_ignored_during_execution[0].label_selector
    narrowed = selector_with_keys(selector, {"rev": "1"}, ("rev", "absent"))
    assert narrowed is not None
    assert narrowed.matches({"app": "web", "rev": "1"})
    assert not narrowed.matches({"app": "web", "rev": "2"})
    other = selector_with_keys(selector, {"rev": "1"}, (), ("rev",))
    assert other is not None
    assert not other.matches({"app": "web", "rev": "1"})
    assert selector_with_keys(None, {}, ("rev",)) is None
