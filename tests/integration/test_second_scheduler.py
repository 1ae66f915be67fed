"""Cathedra's scheduler as a second one beside the default, with exactly the role and configuration of its manifest.

The API server has Kubernetes' rules and authorization. The first scheduler has the rights of system:kube-scheduler.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import yaml

from cathedra.api.core.core_v1 import Node, Pod, PodList, ServiceAccount
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.struct import from_dict, replace
from cathedra.apiserver.authentication.serviceaccounts import service_account_user
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client import resources
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef
from cathedra.clock import LoopClock
from cathedra.cluster.identity.permissions import SCHEDULER
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from cathedra.scheduler.configuration.reading import read_configuration
from cathedra.scheduler.scheduler import Scheduler
from tests.running import on_virtual_clock
from tests.unit.controllers.calls import CallRecorder
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_

MANIFEST = Path(__file__).parents[2] / "deploy" / "kustomize" / "scheduler" / "scheduler.yaml"
GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True, "DRAExtendedResource": True}
REFS: dict[str, ResourceRef[Any]] = {ref.kind: ref for ref in vars(resources).values() if isinstance(ref, ResourceRef)}
NOTE = "scheduling.cathedra.dev/preferred-constraints"


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(MANIFEST.read_text()))


async def create(client: Client, *objects: Any) -> None:
    for one in objects:
        ref = REFS[type(one).__name__]
        resource = client.resource(ref, (one.metadata.namespace or "default") if ref.namespaced else "")
        made = await resource.create(one)
        if isinstance(one, Node):
            await resource.update_status(replace(made, status=one.status))


def member(name: str, group: str, scheduler: str, cpu: str, where: str = "") -> Pod:
    """A pod of a gang with a claim of its name, which may prefer a node."""
    more: dict[str, Any] = {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}
    more["nodeSelector"] = {"pool": "plain" if group == "plain" else "joint"}
    if where:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [where]}]}
        wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
        more["affinity"] = {"nodeAffinity": wish}
    made = pod(name, requests={"cpu": cpu}, schedulingGroup={"podGroupName": group}, schedulerName=scheduler, **more)
    return replace(made, metadata=replace(made.metadata, uid=""))


def gang(name: str, **annotations: str) -> PodGroup:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return from_dict(PodGroup, {"metadata": metadata, "spec": spec})


@on_virtual_clock
async def test_the_role_of_the_manifest_is_enough_to_place_gangs_beside_the_default_scheduler() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    gates = FeatureGates.for_release("1.37", GATES)
    served = {"scheduling.k8s.io/v1beta1": True, "scheduling.k8s.io/v1alpha3": True}
    config = ServerConfig(
        release="1.37",
        gates=gates,
        definitions=all_definitions(gates),
        runtime_config=served,
        authorization=True,
        service_accounts=True,
    )
    server = await APIServer.open(config, clock=clock, random=random.Random(1))
    client = Client(server.transport(), clock=clock)
    rights = [one for one in documents() if one["kind"] in ("ClusterRole", "ClusterRoleBinding")]
    for one in rights:
        await create(client, from_dict(REFS[one["kind"]].type, one))
    await create(client, ServiceAccount(metadata=ObjectMeta(name="default", namespace="default")))
    text = next(one for one in documents() if one["kind"] == "ConfigMap")["data"]["config.yaml"]
    second = CallRecorder(server.transport_of(service_account_user("kube-system", "cathedra-scheduler", "")))
    first = CallRecorder(server.transport_of(SCHEDULER))
    schedulers = [
        Scheduler(Client(first, clock=clock), clock=clock, random=random.Random(2), gates=gates),
        Scheduler(
            Client(second, clock=clock),
            clock=clock,
            random=random.Random(3),
            gates=gates,
            configuration=read_configuration(text),
        ),
    ]
    running = [asyncio.ensure_future(one.run()) for one in schedulers]
    pods = client.resource(resources.PODS, "default")
    try:
        await create(client, device_class())
        for pool in ("joint", "plain"):
            await create(client, node(f"{pool}-large", cpu="3", labels={"pool": pool}), slice_(f"{pool}-large", 3))
            await create(client, node(f"{pool}-small", cpu="1", labels={"pool": pool}), slice_(f"{pool}-small", 3))
        await create(client, gang("joint"), gang("plain"))
        await create(client, *map(claim, "abcd"))
        # The pod that is tried first prefers the node that alone is large enough for the other.
        await create(client, member("b", "joint", "cathedra-joint", "3"))
        await create(client, member("a", "joint", "cathedra-joint", "1", "joint-large"))
        await create(client, member("d", "plain", "default-scheduler", "3"))
        await create(client, member("c", "plain", "default-scheduler", "1", "plain-large"))
        await clock.sleep(30)
        found: PodList = await pods.list()
        places = {one.metadata.name: one.spec.node_name for one in found.items}
        assert places == {"a": "joint-small", "b": "joint-large", "c": "", "d": ""}
        # The annotations that the plugin reads, and a refusal with its condition and events.
        note = {NOTE: '[{"matchAttribute": "gpu.example.com/numa"}]'}
        pair = claim("e", exactly(count=2))
        await create(client, replace(pair, metadata=replace(pair.metadata, annotations=note)), claim("f"))
        attribute = {"scheduling.cathedra.dev/same-device-attribute": "gpu.example.com/numa"}
        await create(client, gang("refused", **attribute))
        await create(client, member("e", "refused", "cathedra-joint", "1"))
        await create(client, member("f", "refused", "cathedra-joint", "1"))
        await clock.sleep(30)
        group = await client.resource(REFS["PodGroup"], "default").get("refused")
        assert [one.reason for one in group.status.conditions] == ["Unschedulable"]
        assert first.denied == []
        assert second.denied == []
    finally:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.close()
