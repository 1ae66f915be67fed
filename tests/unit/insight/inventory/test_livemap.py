"""The map of a followed cluster is that of its state, and a change costs what it concerns."""

from __future__ import annotations

import random
from collections.abc import Iterable

from msgspec import structs

from cathedra.api.core.core_v1 import ContainerStatus, Node, Pod, ResourceHealth, ResourceStatus
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import DeviceTaint, ResourceClaim, ResourceSlice
from cathedra.api.struct import replace
from cathedra.insight import read_dump
from cathedra.insight.inventory.clustermap import ClusterMap, cluster_map
from cathedra.insight.inventory.livemap import LiveMap
from cathedra.insight.reading.state import ClusterState, key_of
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with


def with_objects(state: ClusterState, *objects: KubeObject) -> ClusterState:
    """The next state, which shares all other objects."""
    return state.including(objects)


def tainted(piece: ResourceSlice, place: int) -> ResourceSlice:
    devices = [
        replace(one, taints=(DeviceTaint(key="broken", effect="NoSchedule"),) if number == place else one.taints)
        for number, one in enumerate(piece.spec.devices or ())
    ]
    return replace(piece, spec=replace(piece.spec, devices=tuple(devices)))


def reporting(pod: Pod, device: str, health: str) -> Pod:
    status = ResourceStatus(name="claim:gpu", resources=(ResourceHealth(resource_id=device, health=health),))
    container = ContainerStatus(name="c", allocated_resources_status=(status,))
    return replace(pod, status=replace(pod.status, container_statuses=(container,)))


def content(found: ClusterMap) -> tuple[object, ...]:
    """A map without the order of its entries."""

    def sorted_by_text(entries: Iterable[object]) -> list[str]:
        return sorted(map(repr, entries))

    empty = structs.replace(found, devices=(), nodes=(), subjects=(), pools=())
    return empty, *map(sorted_by_text, (found.devices, found.nodes, found.subjects, found.pools))


def test_one_changed_slice_computes_one_pool() -> None:
    state, live = read_dump(gpu_cluster(nodes=50, taken=20)), LiveMap()
    first = live.of(state)
    computed = live.pools_computed
    changed = with_objects(state, tainted(state.all(ResourceSlice)[7], 1))
    second = live.of(changed)
    assert content(second) == content(cluster_map(changed))
    assert live.pools_computed - computed == 1
    shared = {id(one) for one in first.devices} & {id(one) for one in second.devices}
    assert len(shared) == len(first.devices) - 2, "the other pools have the same entries"


def test_a_pod_that_changes_computes_no_pool() -> None:
    state, live = read_dump([*gpu_cluster(nodes=3), *pod_with(1)]), LiveMap()
    live.of(state)
    computed = live.pools_computed
    (pod,) = state.pods
    running = with_objects(state, replace(pod, status=replace(pod.status, phase="Running")))
    assert content(live.of(running)) == content(cluster_map(running))
    assert live.pools_computed == computed


def test_health_that_pods_report_is_that_of_the_device() -> None:
    state, live = read_dump([*gpu_cluster(nodes=3), *pod_with(1)]), LiveMap()
    live.of(state)
    (pod,) = state.pods
    for health in ("Unhealthy", "Healthy"):
        state = with_objects(state, reporting(pod, "gpu.example.com/node-1/gpu-0", health))
        assert content(live.of(state)) == content(cluster_map(state))
    state = state.without([pod])
    assert content(live.of(state)) == content(cluster_map(state))


def test_any_sequence_of_states_has_the_maps_of_the_states() -> None:
    full = read_dump([*gpu_cluster(nodes=6, gpus=3, taken=12), *pod_with(1)])
    chosen, live, state = random.Random(3), LiveMap(), full
    everything = [one for items in full.objects.values() for one in items.values()]
    for _ in range(60):
        one = chosen.choice(everything)
        present = state.get(type(one), *reversed(key_of(one)))
        if present is None:
            state = with_objects(state, one)
        elif isinstance(present, ResourceSlice) and chosen.random() < 0.6:
            state = with_objects(state, tainted(present, chosen.randrange(3)))
        else:
            state = state.without([one])
        assert content(live.of(state)) == content(cluster_map(state)), one


def test_devices_whose_slice_has_gone_are_gone_while_a_claim_holds_them() -> None:
    state, live = read_dump(gpu_cluster(nodes=2, taken=2)), LiveMap()
    live.of(state)
    state = state.without(state.all(ResourceSlice)[:1])
    found = live.of(state)
    assert [one.state for one in found.devices if one.pool == "node-0"] == ["gone"]
    state = state.without(state.all(ResourceClaim))
    assert [one.pool for one in live.of(state).devices] == ["node-1", "node-1"]


def test_nodes_that_go_and_come_are_followed() -> None:
    state, live = read_dump(gpu_cluster(nodes=2)), LiveMap()
    live.of(state)
    (first, _) = state.all(Node)
    state = state.without([first])
    assert [one.name for one in live.of(state).nodes] == ["node-1"]
