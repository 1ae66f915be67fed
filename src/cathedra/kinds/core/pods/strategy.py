"""Strategies, deletion and definition of pods (docs/spec/api.md §6; docs/spec/apimachinery.md §7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.core.core_v1 import Pod
from cathedra.api.field import ErrorList
from cathedra.api.struct import Quantity, Time, replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.pods import validation
from cathedra.kinds.core.pods.defaults import default_new_pod, default_pod
from cathedra.kinds.core.pods.disabled_fields import enabled_pod_spec, enabled_pod_status
from cathedra.kinds.core.pods.warnings import app_armor_warnings, pod_warnings
from cathedra.kinds.definition import (
    PROXY_VERBS,
    Column,
    ConnectedSubresource,
    RequestContext,
    ResourceDefinition,
    Strategy,
)
from cathedra.kinds.deletion import DeletionRules
from cathedra.kinds.strategies import GenerationStrategy, next_generation
from cathedra.semantics.conditions import find_condition, is_true
from cathedra.semantics.pods import is_ready, is_sidecar, is_terminal

POD_FIELDS: Final[Mapping[str, Callable[[core_v1.Pod], str]]] = {
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.restartPolicy": lambda pod: pod.spec.restart_policy,
    "spec.schedulerName": lambda pod: pod.spec.scheduler_name,
    "spec.serviceAccountName": lambda pod: pod.spec.service_account_name,
    "spec.hostNetwork": lambda pod: "true" if pod.spec.host_network else "false",
    "status.phase": lambda pod: pod.status.phase,
    # Kubernetes' internal form has the list only. The selector reads its first entry, whatever ``podIP`` is.
    "status.podIP": lambda pod: pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip,
    "status.nominatedNodeName": lambda pod: pod.status.nominated_node_name,
}


class PodStrategy(GenerationStrategy[core_v1.Pod]):
    """A pod begins pending, gated if it has gates, and changes little afterwards."""

    metadata_checks = 2

    def default(self, obj: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Add the defaults of the kind."""
        # Only new pods lack a UID. Stored pods differ in their specs (nodes, tokens), and would push the specs of
        # workloads out of the memo.
        return default_pod(obj) if obj.metadata.uid else default_new_pod(obj)

    def prepare_create(self, obj: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Begin pending, in the quality class that follows from the resources."""
        # Before the quality class is computed: a dropped field must not influence it.
        spec = enabled_pod_spec(obj.spec, None, context.gates)
        status = _pending(qos_class(spec))
        if spec.scheduling_gates:
            gated = core_v1.PodCondition(
                type="PodScheduled",
                status="False",
                reason="SchedulingGated",
                message="Scheduling is blocked due to non-empty scheduling gates",
                last_transition_time=Time(context.now),
            )
            status = replace(status, conditions=(gated,))
        return replace(obj, metadata=replace(obj.metadata, generation=1), spec=spec, status=status)

    def validate_create(self, obj: core_v1.Pod, context: RequestContext) -> ErrorList:
        """Check the rules of a pod."""
        return validation.validate_pod(obj)

    def prepare_update(self, new: core_v1.Pod, old: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Keep the status, and drop disabled fields."""
        pod = replace(new, spec=enabled_pod_spec(new.spec, old.spec, context.gates))
        return super().prepare_update(pod, old, context)

    def validate_update(self, new: core_v1.Pod, old: core_v1.Pod, context: RequestContext) -> ErrorList:
        """Check the rules of a pod, and what may change."""
        return validation.validate_pod_update(new, old, context.gates.release)

    def preparation_warnings(self, obj: core_v1.Pod) -> Sequence[str]:
        """Return the warnings of the annotations for AppArmor."""
        return tuple(app_armor_warnings(obj)) if obj.metadata.annotations else ()

    def warnings(self, new: core_v1.Pod, old: core_v1.Pod | None, context: RequestContext) -> Sequence[str]:
        """Return the warnings of a new pod. Updates, which programs make, have none."""
        return pod_warnings(new) if old is None else ()


@cache
def _pending(qos: str) -> core_v1.PodStatus:
    """Return the initial status of all new pods of a quality of service class.

    The pods of a class share one object, so that memos find it.
    """
    return core_v1.PodStatus(phase="Pending", qos_class=qos)


class PodStatusStrategy(Strategy[core_v1.Pod]):
    """A pod's status, as its node and the controllers write it."""

    reset_fields = ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences")

    def default(self, obj: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Add the defaults of the kind."""
        return default_pod(obj)

    def default_change(self, obj: core_v1.Pod, old: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Return the pod with defaults if its spec is another one, else as it is: a status has no defaults."""
        return obj if obj.spec is old.spec else default_pod(obj)

    def prepare_update(self, new: core_v1.Pod, old: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Keep the spec and the fields that only the main resource may change; drop disabled fields."""
        metadata, its = new.metadata, old.metadata
        # Owners and generation belong to the main resource. By identity, because kubelets of our own send the stored
        # object back and a copy per status would cost more than all other rules here.
        if metadata.owner_references is not its.owner_references or metadata.generation != its.generation:
            metadata = replace(metadata, owner_references=its.owner_references, generation=its.generation)
        # A kubelet that writes a status without the quality of service class must not clear it: eviction and OOM scores
        # read it, and nothing sets it again.
        status = new.status if new.status.qos_class else replace(new.status, qos_class=old.status.qos_class)
        status = enabled_pod_status(status, old.status, context.gates)
        if metadata is new.metadata and new.spec is old.spec and status is new.status:
            return new
        return replace(new, metadata=metadata, spec=old.spec, status=status)

    def validate_update(self, new: core_v1.Pod, old: core_v1.Pod, context: RequestContext) -> ErrorList:
        """Check the rules of a status."""
        return validation.validate_pod_status_update(new, old, context.gates)


class EphemeralContainersStrategy(Strategy[core_v1.Pod]):
    """The sub-resource for containers that are added to debug a running pod."""

    def default(self, obj: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Add the defaults of the kind."""
        return default_pod(obj)

    def prepare_update(self, new: core_v1.Pod, old: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Return the stored pod with the new ephemeral containers."""
        # The stored spec with one list of the request: everything else that the client sent is ignored, as in
        # Kubernetes, so that an outdated copy of the pod cannot undo other changes.
        spec = replace(old.spec, ephemeral_containers=new.spec.ephemeral_containers)
        return next_generation(_stored(new, old, spec), old)

    def validate_update(self, new: core_v1.Pod, old: core_v1.Pod, context: RequestContext) -> ErrorList:
        """Require that those that are there stay as they are."""
        return validation.validate_ephemeral_containers_update(new, old, context.gates.release)


class ResizeStrategy(Strategy[core_v1.Pod]):
    """The sub-resource for other requests and limits of running containers."""

    def default(self, obj: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Add the defaults of the kind."""
        return default_pod(obj)

    def prepare_update(self, new: core_v1.Pod, old: core_v1.Pod, context: RequestContext) -> core_v1.Pod:
        """Return the stored pod with the new resources of its containers."""
        spec = replace(
            old.spec,
            init_containers=_resized(new.spec.init_containers, old.spec.init_containers),
            containers=_resized(new.spec.containers, old.spec.containers),
            resources=new.spec.resources,
        )
        return next_generation(_stored(new, old, spec), old)

    def validate_update(self, new: core_v1.Pod, old: core_v1.Pod, context: RequestContext) -> ErrorList:
        """Require that only cpu and memory change, and the quality class does not."""
        return validation.validate_resize(new, old, qos_class(new.spec), context.gates)


def _resized(new: tuple[core_v1.Container, ...], old: tuple[core_v1.Container, ...]) -> tuple[core_v1.Container, ...]:
    """Return the stored containers with the new resources, or the new ones if their names or order differ."""
    # With other names or another order, validation must see the containers as they were sent, or the refusal would not
    # name the change.
    if [one.name for one in new] != [one.name for one in old]:
        return new
    return tuple(
        replace(before, resources=after.resources, resize_policy=after.resize_policy)
        for after, before in zip(new, old, strict=True)
    )


def _stored(new: core_v1.Pod, old: core_v1.Pod, spec: core_v1.PodSpec) -> core_v1.Pod:
    """Return the stored pod with another spec, and with the resource version and managed fields of ``new``."""
    metadata = replace(
        old.metadata,
        resource_version=new.metadata.resource_version,
        managed_fields=new.metadata.managed_fields,
    )
    return replace(old, metadata=metadata, spec=spec)


_STREAM: Final = ("create", "get")
_CONNECTED: Final = (
    ConnectedSubresource("attach", _STREAM, "PodAttachOptions"),
    ConnectedSubresource("binding", ("create",), "Binding"),
    ConnectedSubresource("eviction", ("create",), "Eviction", "policy", "v1"),
    ConnectedSubresource("exec", _STREAM, "PodExecOptions"),
    ConnectedSubresource("log", ("get",), "Pod"),
    ConnectedSubresource("portforward", _STREAM, "PodPortForwardOptions"),
    ConnectedSubresource("proxy", PROXY_VERBS, "PodProxyOptions"),
)


def pod_definition() -> ResourceDefinition[core_v1.Pod]:
    """Return the definition of pods."""
    return BuiltinKind(
        core_v1.Pod,
        "pods",
        returns_deleted_object=True,
        namespaced=True,
        strategy=PodStrategy(),
        status=PodStatusStrategy(),
        subresources={"ephemeralcontainers": EphemeralContainersStrategy(), "resize": ResizeStrategy()},
        connected=_CONNECTED,
        table=(POD_COLUMNS, pod_cells),
        short_names=("po",),
        categories=("all",),
        field_selectors=POD_FIELDS,
        indexed_fields=("spec.nodeName",),
        deletion=PodDeletion(),
    ).definition()


def qos_class(spec: core_v1.PodSpec) -> str:
    """Return Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    if spec.resources is not None:
        # Resources of the pod as a whole outrank those of its containers: its cgroup is made from them.
        return _class_of([spec.resources])
    return _class_of([container.resources for container in spec.containers + spec.init_containers])


def _class_of(sources: Sequence[core_v1.ResourceRequirements]) -> str:
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for resources in sources:
        if not resources.requests and not resources.limits:
            guaranteed = False
            continue
        for name in ("cpu", "memory"):
            request, limit = resources.requests.get(name), resources.limits.get(name)
            if request is not None and request.sign() > 0:
                requests[name] = request if name not in requests else requests[name] + request
            # Zero amounts are skipped as if unset, so "cpu: 0" makes no container Burstable.
            if limit is not None and limit.sign() > 0:
                limits[name] = limit if name not in limits else limits[name] + limit
            else:
                guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


DEFAULT_GRACE: Final = 30
"""Seconds for a pod whose spec has no grace period."""


class PodDeletion(DeletionRules[Pod]):
    """A pod ends within its grace period; its node then deletes it with none."""

    announced = True

    def grace_period(self, obj: Pod, wanted: int | None) -> int:
        """Return the requested grace period, or that of the spec. It is 0 for a pod without a node, and for one that
        has ended."""
        grace = wanted
        if grace is None:
            grace = obj.spec.termination_grace_period_seconds
        if grace is None:
            grace = DEFAULT_GRACE
        # Stored specs may have negative periods. The kubelet would kill such a container at once, Kubernetes grants a
        # second.
        if grace < 0:
            grace = 1
        # No kubelet will confirm the end of such a pod. With a grace period it would stay in the store for ever.
        if not obj.spec.node_name or is_terminal(obj):
            return 0
        if obj.metadata.deletion_timestamp is not None:
            # A second deletion may only shorten the period, so that "kubectl delete" without options cannot prolong a
            # forced one.
            return min(grace, obj.metadata.deletion_grace_period_seconds or 0)
        return grace


POD_COLUMNS: Final = (
    NAME,
    Column("Ready", description="Containers that are ready, of all."),
    Column("Status", description="The pod's phase, or what keeps it from running."),
    Column("Restarts", description="How often containers were started again, and when last."),
    AGE,
    Column("IP", priority=1, description="The pod's address."),
    Column("Node", priority=1, description="The node the pod is bound to."),
    Column("Nominated Node", priority=1, description="The node where victims are making room."),
    Column("Readiness Gates", priority=1, description="Readiness gates that are open, of all."),
)


def pod_cells(pod: core_v1.Pod, now: float) -> list[Any]:
    """Return the cells of a Pod."""
    ready, total = _readiness(pod)
    gates = pod.spec.readiness_gates
    true = {condition.type for condition in pod.status.conditions if condition.status == "True"}
    opened = sum(1 for gate in gates if gate.condition_type in true)
    return [
        pod.metadata.name,
        f"{ready}/{total}",
        pod_status(pod),
        _restarts(pod, now),
        age(pod.metadata.creation_timestamp, now),
        pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip or "<none>",
        pod.spec.node_name or "<none>",
        pod.status.nominated_node_name or "<none>",
        f"{opened}/{len(gates)}" if gates else "<none>",
    ]


def _restartable(pod: core_v1.Pod) -> dict[str, bool]:
    return {container.name: is_sidecar(container) for container in pod.spec.init_containers}


def _readiness(pod: core_v1.Pod) -> tuple[int, int]:
    restartable = _restartable(pod)
    total = len(pod.spec.containers) + sum(restartable.values())
    running = [s for s in pod.status.container_statuses if s.ready and s.state and s.state.running]
    sidecars = [s for s in pod.status.init_container_statuses if restartable.get(s.name) and s.started and s.ready]
    return len(running) + len(sidecars), total


def _restarts(pod: core_v1.Pod, now: float) -> str:
    restartable = _restartable(pod)
    sidecars = [status for status in pod.status.init_container_statuses if restartable.get(status.name)]
    initializing = _waiting_for_init(pod) is not None
    inits = [s for s in pod.status.init_container_statuses if not restartable.get(s.name)]
    counted = inits if initializing else [*pod.status.container_statuses]
    counted = [*counted, *sidecars]
    total = sum(status.restart_count for status in counted)
    ends = [_finished(status) for status in counted]
    latest = max((end for end in ends if end is not None), default=None, key=lambda end: end.micros)
    if total and latest is not None:
        return f"{total} ({age(latest, now)} ago)"
    return str(total)


def _finished(status: core_v1.ContainerStatus) -> Time | None:
    last = status.last_state.terminated if status.last_state else None
    return last.finished_at if last else None


def pod_status(pod: core_v1.Pod) -> str:
    """Return the pod in a word: its phase, or the reason that matters most."""
    reason = pod.status.reason or pod.status.phase
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.reason == "SchedulingGated":
        reason = "SchedulingGated"
    waiting = _waiting_for_init(pod)
    reason = waiting if waiting is not None and not _initialized_with_sidecars(pod) else _of_containers(pod, reason)
    if pod.metadata.deletion_timestamp is None:
        return reason
    if pod.status.reason == "NodeLost":
        return "Unknown"
    return reason if is_terminal(pod) else "Terminating"


def _initialized_with_sidecars(pod: core_v1.Pod) -> bool:
    return is_true(pod.status.conditions, "Initialized")


def _waiting_for_init(pod: core_v1.Pod) -> str | None:
    """Return the status of the first unfinished init container. Return None if all are finished."""
    restartable = _restartable(pod)
    for position, status in enumerate(pod.status.init_container_statuses):
        state = status.state or core_v1.ContainerState()
        if state.terminated is not None and state.terminated.exit_code == 0:
            continue
        if restartable.get(status.name) and status.started:
            continue
        if state.terminated is not None:
            return f"Init:{_end(state.terminated)}"
        if state.waiting is not None and state.waiting.reason not in ("", "PodInitializing"):
            return f"Init:{state.waiting.reason}"
        return f"Init:{position}/{len(pod.spec.init_containers)}"
    return None


def _end(terminated: core_v1.ContainerStateTerminated) -> str:
    if terminated.reason:
        return terminated.reason
    return f"Signal:{terminated.signal}" if terminated.signal else f"ExitCode:{terminated.exit_code}"


def _of_containers(pod: core_v1.Pod, reason: str) -> str:
    running = False
    failed = ""
    for status in reversed(pod.status.container_statuses):
        state = status.state or core_v1.ContainerState()
        if state.waiting is not None and state.waiting.reason:
            reason = state.waiting.reason
        elif state.terminated is not None:
            reason = _end(state.terminated)
            if state.terminated.exit_code != 0:
                failed = reason
        elif status.ready and state.running is not None:
            running = True
    if reason != "Completed":
        return reason
    if running:
        return "Running" if is_ready(pod) else "NotReady"
    return failed or reason
