"""Daemon sets: one pod for every node that fits."""

from __future__ import annotations

from cathedra.api.core.apps_v1 import (
    DaemonSet,
    DaemonSetSpec,
)
from cathedra.api.core.core_v1 import (
    Node,
    NodeSpec,
    Pod,
    Taint,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.resources import DAEMONSETS, NODES, PODS
from cathedra.controllers.workloads.daemonset import DaemonSetController
from tests.unit.controllers.workloads.objects import SELECTOR, Kubelet, images, meta, template
from tests.unit.controllers.world import World, play, settle


def test_a_daemon_set_has_a_pod_on_every_node_that_fits() -> None:
    async def story(world: World) -> None:
        for name in ("a", "b", "gpu"):
            labels = {"gpu": "yes"} if name == "gpu" else {}
            await world.create(NODES, Node(metadata=ObjectMeta(name=name, labels=labels)))
        tainted = NodeSpec(taints=(Taint(key="own", effect="NoSchedule"),))
        await world.create(NODES, Node(metadata=ObjectMeta(name="tainted"), spec=tainted))
        spec = DaemonSetSpec(selector=SELECTOR, template=template())
        await world.create(DAEMONSETS, DaemonSet(metadata=meta(), spec=spec))
        await settle(3)
        assert sorted(map(pinned_to, await world.list(PODS))) == ["a", "b", "gpu"]
        status = (await world.of(DAEMONSETS).get("w")).status
        assert (status.desired_number_scheduled, status.number_available) == (3, 3)
        only_gpu = replace(template("v2"), spec=replace(template("v2").spec, node_selector={"gpu": "yes"}))
        await world.change(DAEMONSETS, "w", lambda d: replace(d, spec=replace(d.spec, template=only_gpu)))
        await settle(10)
        assert sorted(map(pinned_to, await world.list(PODS))) == ["gpu"]
        assert await images(world) == ["v2"]

    play((DaemonSetController, Kubelet), story)


def pinned_to(pod: Pod) -> str:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    assert required is not None
    (term,) = required.node_selector_terms or ()
    return term.match_fields[0].values[0]
