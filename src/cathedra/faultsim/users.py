"""Users of a simulated cluster: they carry out the actions of a plan, and leave the cluster alone in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from cathedra.api.core.apps_v1 import Deployment
from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Namespace, Pod, ResourceQuota
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict
from cathedra.client.client import Client
from cathedra.client.resources import (
    DEPLOYMENTS,
    DEVICECLASSES,
    DEVICETAINTRULES,
    JOBS,
    NAMESPACES,
    NODES,
    PODGROUPS,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCEQUOTAS,
)
from cathedra.client.transport import PatchType, ResourceRef
from cathedra.clock import Clock
from cathedra.faultsim.invariants import QUOTA_RESOURCE
from cathedra.faultsim.plan import PlannedStep, Setup
from cathedra.node.runtime.simulated import RUN_SECONDS

DEFAULT: Final = "default"
LIMITED: Final = "limited"
"""The namespace with a quota."""
SECOND_SCHEDULER: Final = "scheduler-1"
"""Name of the second scheduler, as a part and in pods."""
_CLASS: Final = "gpu.example.com"
_MOST: Final = 2
"""Devices of the largest template."""
_ATTEMPTS: Final = 6
_PAUSE: Final = 5.0


class Users:
    """All users. Their own connections have no faults, but servers may be down."""

    def __init__(self, client: Client, clock: Clock, setup: Setup) -> None:
        self._client = client
        self._clock = clock
        self._setup = setup
        self._gangs: dict[str, int] = {}
        self._actions: Mapping[str, Callable[[PlannedStep], Awaitable[Any]]] = {
            "pod": self._pod,
            "delete-pod": lambda step: self._delete(PODS, step.on),
            "force-delete-pod": lambda step: self._delete(PODS, step.on, grace_period_seconds=0),
            "claim": self._claim,
            "delete-claim": lambda step: self._delete(RESOURCECLAIMS, step.on),
            "pod-of-claim": self._pod_of_claim,
            "job": self._job,
            "delete-job": lambda step: self._delete(JOBS, step.on, propagation_policy="Background"),
            "scale": self._scale,
            "gang": self._gang,
            "delete-gang": self._delete_gang,
            "quota": self._quota,
            "pod-with-quota": self._pod_with_quota,
            "taint": self._taint,
            "untaint": lambda step: self._delete(DEVICETAINTRULES, f"taint-{step.on}"),
            "drain": self._drain,
            "uncordon": lambda step: self._cordon(step.on, unschedulable=False),
        }

    def can(self, step: PlannedStep) -> bool:
        """Return True if the step is an action of users alone."""
        return step.do in self._actions

    async def carry_out(self, step: PlannedStep) -> None:
        """Carry out an action; what the server refuses is left."""
        await self._retried(lambda: self._actions[step.do](step))

    async def prepare(self) -> None:
        """Create what every plan needs."""
        selector = f'device.driver == "{_CLASS}"'
        body = {"metadata": {"name": _CLASS}, "spec": {"selectors": [{"cel": {"expression": selector}}]}}
        await self._create(DEVICECLASSES, "", from_dict(DeviceClass, body))
        await self._create(NAMESPACES, "", from_dict(Namespace, {"metadata": {"name": LIMITED}}))
        for namespace in (DEFAULT, LIMITED):
            for count in range(1, _MOST + 1):
                body = {"metadata": {"name": f"gpus-{count}"}, "spec": {"spec": self._devices(count)}}
                await self._create(RESOURCECLAIMTEMPLATES, namespace, from_dict(ResourceClaimTemplate, body))
        await self._create(DEPLOYMENTS, DEFAULT, from_dict(Deployment, self._deployment()))

    async def restore(self, nodes: int) -> None:
        """Undo taints and drains, so that everything may run."""
        for number in range(nodes):
            await self._retried(partial(self._cordon, f"node-{number}", unschedulable=False))
        for number in range(self._setup.devices):
            name = f"taint-gpu-{number}"
            await self._retried(partial(self._delete, DEVICETAINTRULES, name))

    async def clear(self) -> None:
        """Delete all workloads and claims."""
        await self._retried(lambda: self._delete(DEPLOYMENTS, "service", propagation_policy="Background"))
        for job in (await self._client.resource(JOBS, DEFAULT).list()).items:
            await self._retried(
                lambda job=job: self._delete(JOBS, job.metadata.name, propagation_policy="Background")  # type: ignore[misc]
            )
        for pod in (await self._client.resource(PODS).list()).items:
            await self._retried(
                lambda pod=pod: self._delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace)  # type: ignore[misc]
            )
        for gang in sorted(self._gangs):
            await self._retried(partial(self._delete, PODGROUPS, gang))

    async def probe(self, count: int) -> None:
        """Create pods that need one device each."""
        for number in range(count):
            await self._retried(partial(self._pod, PlannedStep(at=0.0, do="pod", on=f"probe-{number}", count=1)))

    async def delete_node(self, name: str) -> None:
        """Delete the Node object."""
        await self._retried(lambda: self._delete(NODES, name))

    async def _retried(self, action: Callable[[], Awaitable[Any]]) -> None:
        for _ in range(_ATTEMPTS):
            try:
                await action()
            except StatusError as error:
                # What is wrong with the request itself is not better the next time.
                if error.code < 500 and error.code not in (409, 429):
                    return
                if error.code == 409 and "exists" in str(error):
                    return
            except ConnectionError:
                pass
            else:
                return
            await self._clock.sleep(_PAUSE)

    async def _create(self, ref: ResourceRef[Any], namespace: str, obj: Any) -> None:
        try:
            await self._client.resource(ref, namespace).create(obj)
        except StatusError as error:
            if error.code != 409:
                raise

    async def _delete(self, ref: ResourceRef[Any], name: str, *, namespace: str = DEFAULT, **options: Any) -> None:
        where = namespace if ref.namespaced else ""
        await self._client.resource(ref, where).delete(name, **options)

    async def _pod(self, step: PlannedStep, namespace: str = DEFAULT, **spec: Any) -> None:
        reference = {"resourceClaimTemplateName": f"gpus-{min(step.count, _MOST) or 1}"}
        # The pods of a group have one scheduler, as Kubernetes demands.
        if self._setup.named and "schedulingGroup" not in spec and sum(step.on.encode()) % 2:
            spec["schedulerName"] = SECOND_SCHEDULER
        await self._create(PODS, namespace, from_dict(Pod, pod_body(step.on, reference, step.seconds, **spec)))

    async def _pod_with_quota(self, step: PlannedStep) -> None:
        await self._pod(step, LIMITED)

    async def _claim(self, step: PlannedStep) -> None:
        body = {"metadata": {"name": step.on}, "spec": self._devices(1)}
        await self._create(RESOURCECLAIMS, DEFAULT, from_dict(ResourceClaim, body))

    async def _pod_of_claim(self, step: PlannedStep) -> None:
        reference = {"resourceClaimName": step.to}
        await self._create(PODS, DEFAULT, from_dict(Pod, pod_body(step.on, reference, step.seconds)))

    async def _job(self, step: PlannedStep) -> None:
        template = pod_body("", {"resourceClaimTemplateName": "gpus-1"}, step.seconds)
        spec = {"completions": step.count, "parallelism": 2, "template": template}
        await self._create(JOBS, DEFAULT, from_dict(Job, {"metadata": {"name": step.on}, "spec": spec}))

    def _deployment(self) -> dict[str, Any]:
        template = pod_body("", {"resourceClaimTemplateName": "gpus-1"}, 0.0)
        template["metadata"] = {"labels": {"app": "service"}}
        template["spec"]["restartPolicy"] = "Always"
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": "service"}}, "template": template}
        return {"metadata": {"name": "service"}, "spec": spec}

    async def _scale(self, step: PlannedStep) -> None:
        patch = {"spec": {"replicas": step.count}}
        await self._client.resource(DEPLOYMENTS, DEFAULT).patch("service", PatchType.MERGE, patch)

    async def _gang(self, step: PlannedStep) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": step.count}}}
        self._gangs[step.on] = step.count
        await self._create(PODGROUPS, DEFAULT, from_dict(PodGroup, {"metadata": {"name": step.on}, "spec": spec}))
        for number in range(step.count):
            member = PlannedStep(at=step.at, do="pod", on=f"{step.on}-{number}", count=1)
            await self._pod(member, schedulingGroup={"podGroupName": step.on})

    async def _delete_gang(self, step: PlannedStep) -> None:
        for number in range(self._gangs.get(step.on, 0)):
            try:
                await self._delete(PODS, f"{step.on}-{number}")
            except StatusError as error:
                if error.code != 404:
                    raise
        await self._delete(PODGROUPS, step.on)

    async def _quota(self, step: PlannedStep) -> None:
        body = {"metadata": {"name": "claims"}, "spec": {"hard": {QUOTA_RESOURCE: str(step.count)}}}
        await self._create(RESOURCEQUOTAS, LIMITED, from_dict(ResourceQuota, body))

    async def _taint(self, step: PlannedStep) -> None:
        taint = {"key": "example.com/broken", "effect": "NoExecute"}
        spec = {"deviceSelector": {"driver": _CLASS, "device": step.on}, "taint": taint}
        body = {"metadata": {"name": f"taint-{step.on}"}, "spec": spec}
        await self._create(DEVICETAINTRULES, "", from_dict(DeviceTaintRule, body))

    async def _drain(self, step: PlannedStep) -> None:
        await self._cordon(step.on, unschedulable=True)
        pods = (await self._client.resource(PODS).list(field_selector=f"spec.nodeName={step.on}")).items
        for pod in pods:
            try:
                await self._delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace)
            except StatusError as error:
                if error.code != 404:
                    raise
            # A user types one command after the other.
            await asyncio.sleep(1.0)

    async def _cordon(self, node: str, *, unschedulable: bool) -> None:
        patch = {"spec": {"unschedulable": unschedulable or None}}
        await self._client.resource(NODES).patch(node, PatchType.MERGE, patch)

    def _devices(self, count: int) -> dict[str, Any]:
        exactly: dict[str, Any] = {"deviceClassName": _CLASS, "count": count}
        if self._setup.supply == "shares":
            exactly["capacity"] = {"requests": {"memory": "20Gi"}}
        return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def pod_body(name: str, reference: Mapping[str, str], seconds: float, **spec: Any) -> dict[str, Any]:
    """Return a pod with one claim whose container runs for ``seconds`` (0: until it is stopped)."""
    metadata: dict[str, Any] = {"annotations": {RUN_SECONDS: f"{seconds:.3f}"}} if seconds else {}
    return {
        "metadata": metadata | ({"name": name} if name else {}),
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "resourceClaims": [{"name": "gpu", **reference}],
            "containers": [{"name": "main", "image": "debian", "resources": {"claims": [{"name": "gpu"}]}}],
            **spec,
        },
    }
