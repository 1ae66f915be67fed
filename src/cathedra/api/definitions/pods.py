"""Definition of the pod: how it is created, bound by its scheduler, and reported on by its node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cathedra.api.core import core_v1
from cathedra.api.defaulting.pods import default_pod
from cathedra.api.definition import RequestContext, ResourceDefinition, Strategy
from cathedra.api.definitions.names import builtin
from cathedra.api.definitions.strategies import GenerationStrategy
from cathedra.api.field import ErrorList
from cathedra.api.struct import Quantity, Time, replace
from cathedra.api.tables import pods as tables
from cathedra.api.validation.pods import validate_pod

__all__ = ["pod_definition", "qos_class"]

POD_FIELDS: Final[Mapping[str, Callable[[core_v1.Pod], str]]] = {
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.restartPolicy": lambda pod: pod.spec.restart_policy,
    "spec.schedulerName": lambda pod: pod.spec.scheduler_name,
    "spec.serviceAccountName": lambda pod: pod.spec.service_account_name,
    "spec.hostNetwork": lambda pod: "true" if pod.spec.host_network else "false",
    "status.phase": lambda pod: pod.status.phase,
    "status.podIP": lambda pod: pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip,
    "status.nominatedNodeName": lambda pod: pod.status.nominated_node_name,
}


class PodStrategy(GenerationStrategy[core_v1.Pod]):
    """A pod begins pending, gated if it has gates, and changes little afterwards."""

    def default(self, obj: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Fill in what was left out."""
        return default_pod(obj)

    def prepare_create(self, obj: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Begin pending, in the quality class that follows from the resources."""
        pod = super().prepare_create(obj, context)
        conditions: tuple[core_v1.PodCondition, ...] = ()
        if pod.spec.scheduling_gates:
            conditions = (
                core_v1.PodCondition(
                    type="PodScheduled",
                    status="False",
                    reason="SchedulingGated",
                    message="Scheduling is blocked due to non-empty scheduling gates",
                    last_transition_time=None,
                ),
            )
        status = core_v1.PodStatus(phase="Pending", qos_class=qos_class(pod.spec), conditions=conditions)
        return replace(pod, status=status)

    def validate_create(self, obj: core_v1.Pod, context: RequestContext) -> ErrorList:
        """The rules of a pod."""
        return validate_pod(obj, context.gates)

    def warnings(self, new: core_v1.Pod, old: core_v1.Pod | None, context: RequestContext) -> Sequence[str]:
        """Nothing to warn of."""
        return ()


class PodStatusStrategy(Strategy[core_v1.Pod]):
    """A pod's status, as its node and the controllers write it."""

    def default(self, obj: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Fill in what was left out."""
        return default_pod(obj)

    def prepare_update(self, new: core_v1.Pod, old: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Keep the spec and what only the main resource may change; date new conditions."""
        metadata = replace(
            new.metadata,
            owner_references=old.metadata.owner_references,
            generation=old.metadata.generation,
        )
        status = replace(new.status, qos_class=new.status.qos_class or old.status.qos_class)
        return replace(new, metadata=metadata, spec=old.spec, status=status)


def scheduled(pod: core_v1.Pod, node: str, now: float) -> core_v1.Pod:
    """The pod bound to ``node``: name, condition, and the time."""
    condition = core_v1.PodCondition(type="PodScheduled", status="True", last_transition_time=Time(now))
    others = tuple(c for c in pod.status.conditions if c.type != "PodScheduled")
    status = replace(pod.status, conditions=(*others, condition))
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


_ZERO: Final = Quantity("0")


def qos_class(spec: core_v1.PodSpec) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    containers = (*spec.containers, *spec.init_containers)
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    sources = [spec.resources] if spec.resources is not None else [c.resources for c in containers]
    for resources in sources:
        for name in ("cpu", "memory"):
            request, limit = resources.requests.get(name, _ZERO), resources.limits.get(name, _ZERO)
            if request.sign() > 0:
                requests[name] = requests.get(name, _ZERO) + request
            if limit.sign() > 0:
                limits[name] = limits.get(name, _ZERO) + limit
            else:
                guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def pod_definition() -> ResourceDefinition[core_v1.Pod]:
    """The pod."""
    return builtin(
        core_v1.Pod,
        "pods",
        namespaced=True,
        strategy=PodStrategy(),
        status=PodStatusStrategy(),
        table=(tables.POD_COLUMNS, tables.pod_cells),
        short_names=("po",),
        categories=("all",),
        field_selectors=POD_FIELDS,
    )
