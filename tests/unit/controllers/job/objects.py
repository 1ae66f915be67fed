"""Jobs, their pods, and a kubelet that ends them."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.batch_v1 import (
    Job,
    JobSpec,
)
from cathedra.api.core.core_v1 import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodTemplateSpec,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import Time, replace
from cathedra.client.resources import PODS
from tests.unit.controllers.world import World


def job(name: str = "j", **spec: Any) -> Job:
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"job-name": name}),
        spec=PodSpec(containers=(Container(name="c", image="i"),), restart_policy="Never"),
    )
    defaults: dict[str, Any] = {"parallelism": 1, "completions": 1, "backoff_limit": 6, "completion_mode": "NonIndexed"}
    return Job(metadata=ObjectMeta(name=name, namespace="default"), spec=JobSpec(template=template, **defaults | spec))


async def active(world: World) -> list[str]:
    return [
        pod.metadata.name
        for pod in await world.list(PODS)
        if pod.status.phase not in ("Succeeded", "Failed") and pod.metadata.deletion_timestamp is None
    ]


async def end(world: World, name: str, code: int = 0) -> None:
    """The pod's container ends with ``code``."""
    ended = ContainerStateTerminated(exit_code=code, finished_at=Time(world.clock.now()))
    containers = (ContainerStatus(name="c", state=ContainerState(terminated=ended)),)

    def change(pod: Pod) -> Pod:
        phase = "Failed" if code else "Succeeded"
        return replace(pod, status=replace(pod.status, phase=phase, container_statuses=containers))

    await world.change(PODS, name, change, status=True)
