"""Every pod stays a while on a node that does not answer, also after its tolerations were written anew."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Container, Namespace, Pod, PodSpec, ServiceAccount, Toleration
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client import resources
from cathedra.client.client import Client
from cathedra.client.resources import PODS
from cathedra.clock import LoopClock, run_virtual
from cathedra.releases import FeatureGates
from cathedra.remembering import ObjectKeys
from tests.running import on_virtual_clock

KEYS = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


def pod(*tolerations: Toleration) -> Pod:
    container = Container(name="main", image="example.com/main")
    return Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(container,), tolerations=tolerations))


def tolerated(created: Pod) -> list[tuple[str, int | None]]:
    return [(one.key, one.toleration_seconds) for one in created.spec.tolerations]


async def opened() -> tuple[APIServer, Client]:
    clock = LoopClock(asyncio.get_running_loop())
    server = await APIServer.open(ServerConfig(), clock=clock, random=random.Random(1))
    return server, Client(server.transport(), clock=clock)


@on_virtual_clock
async def test_a_new_pod_tolerates_for_five_minutes_what_it_has_no_own_word_about() -> None:
    server, client = await opened()
    own = Toleration(key=KEYS[0], operator="Exists", effect="NoExecute", toleration_seconds=7)
    created = await client.resource(PODS, "default").create(pod(own))
    assert tolerated(created) == [(KEYS[0], 7), (KEYS[1], 300)]
    await server.close()


@on_virtual_clock
async def test_tolerations_that_are_written_anew_need_not_repeat_them() -> None:
    server, client = await opened()
    pods = client.resource(PODS, "default")
    created = await pods.create(pod())
    added = Toleration(key="gpu", operator="Exists", effect="NoSchedule")
    updated = await pods.update(replace(created, spec=replace(created.spec, tolerations=(added,))))
    assert tolerated(updated) == [("gpu", None), (KEYS[0], 300), (KEYS[1], 300)]
    await server.close()


def pod_of(account: str = "") -> Pod:
    container = Container(name="main", image="example.com/main")
    return Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(container,), service_account_name=account))


async def opened_with_accounts() -> tuple[APIServer, Client, LoopClock]:
    clock = LoopClock(asyncio.get_running_loop())
    server = await APIServer.open(ServerConfig(service_accounts=True), clock=clock, random=random.Random(1))
    client = Client(server.transport(), clock=clock)
    await client.resource(resources.NAMESPACES).create(Namespace(metadata=ObjectMeta(name="new")))
    return server, client, clock


@on_virtual_clock
async def test_a_pod_is_accepted_when_the_default_account_appears_meanwhile() -> None:
    server, client, clock = await opened_with_accounts()

    async def controller() -> None:
        await clock.sleep(0.45)
        account = ServiceAccount(metadata=ObjectMeta(name="default"))
        await client.resource(resources.SERVICEACCOUNTS, "new").create(account)

    making = asyncio.create_task(controller())
    created = await client.resource(resources.PODS, "new").create(pod_of())
    assert created.spec.service_account_name == "default"
    await making
    await server.close()


@pytest.mark.parametrize(("account", "least", "most"), [("", 0.9, 1.8), ("robot", 0.0, 0.0)])
@on_virtual_clock
async def test_a_missing_account_is_an_error_at_once_or_after_ten_looks(
    *, account: str, least: float, most: float
) -> None:
    """Only ``default`` is made by a controller, so only that is waited for."""
    server, client, clock = await opened_with_accounts()
    began = clock.monotonic()
    with pytest.raises(StatusError) as refused:
        await client.resource(resources.PODS, "new").create(pod_of(account))
    name = account or "default"
    assert f'error looking up service account new/{name}: serviceaccount "{name}" not found' in str(refused.value)
    assert least <= clock.monotonic() - began <= most
    await server.close()


CONTAINERS: list[dict[str, Any]] = [
    {},
    {"volumeMounts": [{"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]},
    {"volumeMounts": [{"name": "kube-api-access-bcdfg", "mountPath": "/x"}]},
    {"resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1500m"}}},
    {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
    {"image": " i"},
    {"ports": [{"containerPort": 80}, {"containerPort": 80}]},
]
SPECS: list[dict[str, Any]] = [
    {},
    {"automountServiceAccountToken": False},
    {"volumes": [{"name": "own"}]},
    {"volumes": [{"name": "kube-api-access-bcdfg"}]},
    {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]},
    {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
    {"priorityClassName": "system-node-critical"},
    {"restartPolicy": "Sometimes"},
]
BODIES = st.builds(
    lambda spec, container, annotations: {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i", **container}], **spec},
    },
    st.sampled_from(SPECS),
    st.sampled_from(CONTAINERS),
    st.sampled_from([{}, {"security.alpha.kubernetes.io/sysctls": "a=b"}]),
)


def outcomes(bodies: list[dict[str, Any]]) -> list[object]:
    """Return the outcome of pods, one after the other: the response or the refusal, and the warnings."""

    async def body() -> list[object]:
        server, client, _ = await opened_with_accounts()
        account = ServiceAccount(metadata=ObjectMeta(name="default"))
        await client.resource(resources.SERVICEACCOUNTS, "new").create(account)
        found: list[object] = []
        for number, sent in enumerate(bodies):
            made = from_dict(Pod, {**sent, "metadata": {"name": f"p-{number}", **sent["metadata"]}})
            try:
                created = await client.resource(resources.PODS, "new").create(made)
                found.append(to_dict(created))
            except StatusError as error:
                found.append(to_dict(error.status))
        await server.close()
        return found

    return run_virtual(body())


@settings(max_examples=25)
@given(st.lists(BODIES, min_size=1, max_size=4))
def test_pods_that_are_alike_are_made_and_refused_as_if_each_were_the_first(bodies: list[dict[str, Any]]) -> None:
    remembering = outcomes(bodies * 2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ObjectKeys, "__call__", lambda *_: object())
        assert remembering == outcomes(bodies * 2)


def test_each_pod_of_a_workload_has_a_volume_of_its_own_name() -> None:
    made: list[Any] = outcomes([{"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}] * 3)
    names = {one["spec"]["volumes"][0]["name"] for one in made}
    mounted = {one["spec"]["containers"][0]["volumeMounts"][0]["name"] for one in made}
    assert len(names) == 3
    assert names == mounted


@on_virtual_clock
async def test_a_class_that_becomes_the_default_counts_for_the_next_pod() -> None:
    server, client, _ = await opened_with_accounts()
    await client.resource(resources.SERVICEACCOUNTS, "new").create(ServiceAccount(metadata=ObjectMeta(name="default")))
    pods, classes = client.resource(resources.PODS, "new"), client.resource(resources.PRIORITYCLASSES)
    priorities = [(await pods.create(named(pod_of(), "a"))).spec.priority]
    await classes.create(PriorityClass(metadata=ObjectMeta(name="usual"), value=7, global_default=True))
    priorities.append((await pods.create(named(pod_of(), "b"))).spec.priority)
    await classes.delete("usual")
    priorities.append((await pods.create(named(pod_of(), "c"))).spec.priority)
    assert priorities == [0, 7, 0]
    await server.close()


def named(made: Pod, name: str) -> Pod:
    return replace(made, metadata=replace(made.metadata, name=name))


@on_virtual_clock
async def test_a_pod_group_gets_the_priority_of_its_class() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    gates = FeatureGates.for_release("1.37", {"GenericWorkload": True, "PodGroupPreemptionPolicy": True})
    config = ServerConfig(gates=gates, runtime_config={"scheduling.k8s.io/v1beta1": True})
    server = await APIServer.open(config, clock=clock, random=random.Random(1))
    client = Client(server.transport(), clock=clock)
    polite = {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"}
    await client.resource(resources.PRIORITYCLASSES).create(from_dict(PriorityClass, polite))
    groups = client.resource(resources.PODGROUPS, "default")

    def group(name: str, **spec: Any) -> PodGroup:
        return from_dict(PodGroup, {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"basic": {}}, **spec}})

    plain = await groups.create(group("a"))
    assert (plain.spec.priority, plain.spec.preemption_policy) == (0, "PreemptLowerPriority")
    high = await groups.create(group("b", priorityClassName="high"))
    assert (high.spec.priority, high.spec.preemption_policy) == (7, "Never")
    with pytest.raises(StatusError, match="no PriorityClass with name missing was found"):
        await groups.create(group("c", priorityClassName="missing"))
    with pytest.raises(StatusError, match=r"the integer value of priority \(3\) must not be provided"):
        await groups.create(group("d", priority=3))
    await server.close()
