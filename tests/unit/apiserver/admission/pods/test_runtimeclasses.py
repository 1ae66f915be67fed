"""Fields that a pod gets from its runtime class."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod, Toleration
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.node_v1 import Overhead, RuntimeClass, Scheduling
from cathedra.api.quantity import Quantity
from cathedra.api.struct import from_dict
from cathedra.client.resources import PODS, resource_ref
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, refused

CLASSES = resource_ref(RuntimeClass, "runtimeclasses", namespaced=False)
CPU = {"cpu": Quantity.parse("250m")}
TOLERATED = Toleration(key="sandbox", operator="Exists", effect="NoSchedule")


def pod(**spec: Any) -> Pod:
    return from_dict(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}})


async def with_class(api: Guarded) -> None:
    scheduling = Scheduling(node_selector={"sandbox": "yes"}, tolerations=(TOLERATED,))
    made = RuntimeClass(
        metadata=ObjectMeta(name="gvisor"), handler="runsc", overhead=Overhead(pod_fixed=CPU), scheduling=scheduling
    )
    await api.admin.resource(CLASSES).create(made)


@run_with(guarded)
async def test_a_pod_gets_overhead_nodes_and_tolerations(api: Guarded) -> None:
    await with_class(api)
    made = await api.admin.resource(PODS, "default").create(pod(runtimeClassName="gvisor", nodeSelector={"zone": "a"}))
    assert made.spec.overhead == CPU
    assert made.spec.node_selector == {"zone": "a", "sandbox": "yes"}
    assert TOLERATED in made.spec.tolerations


@run_with(guarded)
async def test_a_class_that_is_not_there_is_refused(api: Guarded) -> None:
    said = await refused(api.admin.resource(PODS, "default").create(pod(runtimeClassName="none")))
    assert said == 'pods "p" is forbidden: pod rejected: RuntimeClass "none" not found'


@pytest.mark.parametrize(("release", "admitted"), [("1.37", False), ("1.38", True)])
def test_an_empty_name_of_a_class_is_none(release: str, admitted: bool) -> None:
    """kubernetes/kubernetes#140108."""

    async def body(api: Guarded) -> None:
        pods = api.admin.resource(PODS, "default")
        if admitted:
            assert (await pods.create(pod(runtimeClassName=""))).spec.runtime_class_name == ""
        else:
            said = await refused(pods.create(pod(runtimeClassName="")))
            assert said == 'pods "p" is forbidden: pod rejected: RuntimeClass "" not found'

    guarded(body, release=release)


@run_with(guarded)
async def test_a_pod_may_not_ask_for_something_else_than_its_class_says(api: Guarded) -> None:
    await with_class(api)
    pods = api.admin.resource(PODS, "default")
    other = await refused(pods.create(pod(runtimeClassName="gvisor", overhead={"cpu": "1"})))
    assert other.endswith("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    alone = await refused(pods.create(pod(overhead={"cpu": "1"})))
    assert alone.endswith("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    elsewhere = await refused(pods.create(pod(runtimeClassName="gvisor", nodeSelector={"sandbox": "no"})))
    assert elsewhere.endswith(
        "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no"
    )
