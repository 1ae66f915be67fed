"""Daemon sets: one pod for every node that fits."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import pytest

from cathedra.api.core.apps_v1 import (
    DaemonSet,
    DaemonSetSpec,
    DaemonSetUpdateStrategy,
    RollingUpdateDaemonSet,
)
from cathedra.api.core.core_v1 import (
    Binding,
    Node,
    NodeSpec,
    ObjectReference,
    Pod,
    Taint,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import from_dict, replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import CONTROLLERREVISIONS, DAEMONSETS, NODES, PODS
from cathedra.controllers.workloads.daemonset import (
    Daemons,
    DaemonSetController,
    daemon_pod,
    limits,
    may_stay,
    next_step,
    should_run,
    surplus,
    target_node,
)
from tests.running import run_with
from tests.unit.controllers.workloads.objects import SELECTOR, Kubelet, images, meta, template
from tests.unit.controllers.world import World, play


@run_with(lambda test: play((DaemonSetController, Kubelet), test))
async def test_a_daemon_set_has_a_pod_on_every_node_that_fits(world: World) -> None:
    for name in ("a", "b", "gpu"):
        labels = {"gpu": "yes"} if name == "gpu" else {}
        await world.create(NODES, Node(metadata=ObjectMeta(name=name, labels=labels)))
    tainted = NodeSpec(taints=(Taint(key="own", effect="NoSchedule"),))
    await world.create(NODES, Node(metadata=ObjectMeta(name="tainted"), spec=tainted))
    spec = DaemonSetSpec(selector=SELECTOR, template=template())
    await world.create(DAEMONSETS, DaemonSet(metadata=meta(), spec=spec))
    await world.quiet()
    assert sorted(map(pinned_to, await world.list(PODS))) == ["a", "b", "gpu"]
    status = (await world.of(DAEMONSETS).get("w")).status
    assert (status.desired_number_scheduled, status.number_available) == (3, 3)
    only_gpu = replace(template("v2"), spec=replace(template("v2").spec, node_selector={"gpu": "yes"}))
    await world.change(DAEMONSETS, "w", lambda d: replace(d, spec=replace(d.spec, template=only_gpu)))
    await world.quiet()
    assert sorted(map(pinned_to, await world.list(PODS))) == ["gpu"]
    assert await images(world) == ["v2"]


async def on_node(world: World, **changes: Any) -> None:
    """A daemon set with one pod, on one node."""
    await world.create(NODES, Node(metadata=ObjectMeta(name="a")))
    spec = DaemonSetSpec(selector=SELECTOR, template=template(), **changes)
    await world.create(DAEMONSETS, DaemonSet(metadata=meta(), spec=spec))
    await world.quiet()


async def update(world: World) -> None:
    await world.change(DAEMONSETS, "w", lambda d: replace(d, spec=replace(d.spec, template=template("v2"))))
    await world.clock.sleep(0.5)


@run_with(lambda test: play((DaemonSetController, Kubelet), test))
async def test_a_pod_that_is_being_replaced_counts_until_it_is_gone(world: World) -> None:
    await on_node(world)
    (pod,) = await world.list(PODS)
    await world.of(PODS).update(with_metadata(pod, finalizers=("a.b/c",)))
    await update(world)
    status = (await world.of(DAEMONSETS).get("w")).status
    assert (status.current_number_scheduled, status.number_ready) == (1, 1)
    assert (status.updated_number_scheduled or 0, status.number_unavailable or 0) == (0, 0)


@run_with(lambda test: play((DaemonSetController, Kubelet), test))
async def test_with_surge_the_new_pod_is_there_before_the_old_one_goes(world: World) -> None:
    rolling = RollingUpdateDaemonSet(max_surge=1, max_unavailable=0)
    strategy = DaemonSetUpdateStrategy(type="RollingUpdate", rolling_update=rolling)
    await on_node(world, update_strategy=strategy)
    await update(world)
    assert await images(world) == ["v1", "v2"]
    await world.quiet()
    assert await images(world) == ["v2"]


@run_with(lambda test: play((DaemonSetController, Kubelet), test))
async def test_a_failed_pod_is_told_and_replaced(world: World) -> None:
    await on_node(world)
    (failed,) = await world.list(PODS)
    await world.finish(failed.metadata.name, "Failed")
    await world.quiet()
    message = f"Found failed daemon pod default/{failed.metadata.name} on node a, will try to kill it"
    assert ("Warning", "FailedDaemonPod", message) in await world.events()
    (replacement,) = await world.list(PODS)
    assert replacement.metadata.uid != failed.metadata.uid


@run_with(lambda test: play((DaemonSetController, Kubelet), test))
async def test_pods_of_a_node_that_is_gone_are_left_to_the_pod_collector(world: World) -> None:
    await on_node(world)
    (pod,) = await world.list(PODS)
    binding = Binding(metadata=ObjectMeta(name=pod.metadata.name), target=ObjectReference(kind="Node", name="a"))
    await world.of(PODS).create_subresource(pod.metadata.name, "binding", binding)
    await world.of(NODES).delete("a")
    await world.quiet()
    (left,) = await world.list(PODS)
    assert left.metadata.deletion_timestamp is None


@run_with(lambda test: play((DaemonSetController,), test))
async def test_a_pod_that_fails_again_and_again_is_replaced_more_and_more_slowly(world: World) -> None:
    await on_node(world)
    begin = world.clock.now()
    failures: list[float] = []
    while len(failures) < 5:
        for pod in await world.list(PODS):
            if pod.status.phase == "Pending":
                await world.finish(pod.metadata.name, "Failed")
                failures.append(world.clock.now() - begin)
        await world.clock.sleep(0.25)
    assert [round(later - earlier) for earlier, later in pairwise(failures)] == [0, 1, 2, 4]


@run_with(lambda test: play((DaemonSetController, Kubelet), test))
async def test_an_ended_pod_that_cannot_leave_does_not_keep_its_node_without_a_pod(world: World) -> None:
    await on_node(world)
    (pod,) = await world.list(PODS)
    await world.of(PODS).update(with_metadata(pod, finalizers=("a.b/c",)))
    await world.finish(pod.metadata.name, "Failed")
    await world.quiet()
    phases = sorted(pod.status.phase for pod in await world.list(PODS))
    assert phases == ["Failed", "Running"]
    assert (await world.of(DAEMONSETS).get("w")).status.number_ready == 1


@run_with(lambda test: play((DaemonSetController, Kubelet), test))
async def test_a_version_that_a_pod_still_has_is_remembered_beyond_the_limit(world: World) -> None:
    await on_node(world, update_strategy=DaemonSetUpdateStrategy(type="OnDelete"), revision_history_limit=1)
    for image in ("v2", "v3", "v4"):
        await world.change(
            DAEMONSETS, "w", lambda d, image=image: replace(d, spec=replace(d.spec, template=template(image)))
        )
        await world.quiet()
    kept = sorted(revision.revision for revision in await world.list(CONTROLLERREVISIONS))
    assert kept == [1, 4]


def pinned_to(pod: Pod) -> str:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    assert required is not None
    (term,) = required.node_selector_terms or ()
    return term.match_fields[0].values[0]


def daemon_set(**spec: Any) -> DaemonSet:
    annotations = {"deprecated.daemonset.template.generation": "3"}
    metadata = {"name": "d", "namespace": "default", "uid": "u", "annotations": annotations}
    return from_dict(DaemonSet, {"metadata": metadata, "spec": {"template": {"spec": {"containers": [], **spec}}}})


def node(*taints: tuple[str, str], **labels: str) -> Node:
    shown = [{"key": key, "effect": effect} for key, effect in taints]
    return from_dict(Node, {"metadata": {"name": "n", "labels": labels}, "spec": {"taints": shown}})


@pytest.mark.parametrize(
    ("obj", "on", "expected"),
    [
        (daemon_set(), node(), (True, True)),
        (daemon_set(nodeName="n"), node(), (True, True)),
        (daemon_set(nodeName="m"), node(), (False, False)),
        (daemon_set(nodeSelector={"a": "b"}), node(), (False, False)),
        (daemon_set(nodeSelector={"a": "b"}), node(a="b"), (True, True)),
        (daemon_set(), node(("own", "NoSchedule")), (False, True)),
        (daemon_set(), node(("own", "NoExecute")), (False, False)),
        (daemon_set(), node(("own", "PreferNoSchedule")), (True, True)),
        (daemon_set(), node(("node.kubernetes.io/unschedulable", "NoSchedule")), (True, True)),
        (daemon_set(), node(("node.kubernetes.io/network-unavailable", "NoSchedule")), (False, True)),
        (daemon_set(hostNetwork=True), node(("node.kubernetes.io/network-unavailable", "NoSchedule")), (True, True)),
        (daemon_set(tolerations=[{"operator": "Exists"}]), node(("own", "NoExecute")), (True, True)),
    ],
)
def test_nodes_that_are_to_have_a_pod_and_those_that_may_keep_one(
    obj: DaemonSet, on: Node, expected: tuple[bool, bool]
) -> None:
    assert (should_run(obj, on), may_stay(obj, on)) == expected


def test_a_pod_is_pinned_to_its_node_and_says_its_version() -> None:
    made = daemon_pod(daemon_set(), "n", "abc")
    assert target_node(made) == "n"
    assert made.metadata.labels == {"controller-revision-hash": "abc", "pod-template-generation": "3"}
    assert target_node(from_dict(type(made), {"spec": {"nodeName": "m"}})) == "m"
    assert target_node(from_dict(type(made), {})) == ""


NOW = 1000.0


def rolling_daemon_set(surge: int | str = 0, unavailable: int | str = 1) -> DaemonSet:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return from_dict(DaemonSet, {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}})


def pod(name: str, digest: str = "old", *, ready: bool = True) -> Pod:
    status: dict[str, Any] = {"phase": "Running"}
    if ready:
        since = "1970-01-01T00:00:00Z"
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    metadata = {"name": name, "labels": {"controller-revision-hash": digest}}
    return from_dict(Pod, {"metadata": metadata, "status": status})


def step(
    obj: DaemonSet, pods: dict[str, list[Pod]], wanted: Collection[str] | None = None
) -> tuple[list[str], list[str]]:
    """The names of the pods that go, and the nodes that get one."""
    nodes = wanted if wanted is not None else pods.keys()
    found = next_step(Daemons(obj, pods, set(nodes), "new", NOW))
    return [pod.metadata.name for pod in found.doomed], list(found.nodes)


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"),
    [(0, 0, (0, 1)), ("10%", 0, (1, 0)), (0, "50%", (0, 2)), (2, 1, (2, 1))],
)
def test_percentages_are_rounded_up(surge: int | str, unavailable: int | str, expected: tuple[int, int]) -> None:
    assert limits(rolling_daemon_set(surge, unavailable), 3) == expected


def test_unavailable_old_pods_go_at_once_and_use_up_what_may_be_unavailable() -> None:
    pods = {"a": [pod("a")], "b": [pod("b", ready=False)], "c": [pod("c")]}
    assert step(rolling_daemon_set(unavailable=1), pods) == (["b"], [])
    assert step(rolling_daemon_set(unavailable=2), pods) == (["b", "a"], [])


def test_a_node_without_a_pod_counts_as_unavailable() -> None:
    assert step(rolling_daemon_set(), {"a": [pod("a")], "b": []}) == ([], [])


def test_an_old_pod_on_a_node_that_should_have_none_is_replaced_too() -> None:
    pods = {"a": [pod("a", "new")], "tainted": [pod("t")]}
    assert step(rolling_daemon_set(), pods, wanted={"a"}) == (["t"], [])


def test_with_surge_new_pods_come_first_where_the_old_one_is_down() -> None:
    pods = {"a": [pod("a")], "b": [pod("b", ready=False)], "c": [pod("c")]}
    assert step(rolling_daemon_set(surge=1, unavailable=0), pods) == ([], ["b", "a"])


def test_with_surge_an_old_pod_goes_when_the_new_one_is_available() -> None:
    pods = {"a": [pod("old"), pod("new", "new")], "b": [pod("b"), pod("late", "new", ready=False)], "c": [pod("c")]}
    assert step(rolling_daemon_set(surge=1, unavailable=0), pods) == (["old"], [])


def test_with_surge_a_misplaced_pod_stays_until_enough_others_are_available() -> None:
    pods = {"tainted": [pod("t")], "a": [pod("a", "new", ready=False)]}
    assert step(rolling_daemon_set(surge=1, unavailable=0), pods, wanted={"a"}) == ([], [])
    pods["a"] = [pod("a", "new")]
    assert step(rolling_daemon_set(surge=1, unavailable=0), pods, wanted={"a"}) == (["t"], [])
    pods["tainted"] = [pod("t", ready=False)]
    assert step(rolling_daemon_set(surge=1, unavailable=0), pods, wanted={"a"}) == (["t"], [])


def test_a_node_with_two_pods_of_one_version_waits_for_one_to_go() -> None:
    assert step(rolling_daemon_set(), {"a": [pod("a"), pod("b")], "c": [pod("c")]}) == ([], [])
    assert step(rolling_daemon_set(surge=1), {"a": [pod("a"), pod("b")], "c": [pod("c")]}) == ([], [])


@pytest.mark.parametrize(
    ("surge", "pods", "doomed"),
    [
        (0, [pod("a"), pod("b", "new")], ["b"]),
        (1, [pod("a"), pod("b", "new", ready=False)], []),
        (1, [pod("a"), pod("b", "new")], ["a"]),
        (1, [pod("a", ready=False), pod("b", "new", ready=False)], ["a"]),
        (1, [pod("a"), pod("b"), pod("c", "new", ready=False)], ["b"]),
    ],
)
def test_surplus_pods_of_a_node(surge: int, pods: list[Pod], doomed: list[str]) -> None:
    daemons = Daemons(rolling_daemon_set(surge), {"n": pods}, {"n"}, "new", NOW)
    assert [one.metadata.name for one in surplus(daemons, pods)] == doomed
