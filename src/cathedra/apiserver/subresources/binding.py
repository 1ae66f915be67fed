"""Binding: a pod gets its node, once (docs/spec/apimachinery.md §12)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.core_v1 import Binding, Pod, PodCondition
from cathedra.api.core.meta_v1 import ListMeta, Status
from cathedra.api.scheme import GroupResource
from cathedra.api.status import bad_request, conflict, failure
from cathedra.api.struct import Time, replace
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.update import change, precondition_failed
from cathedra.releases import behaviours
from cathedra.semantics.conditions import with_condition

POD_BINDING = GroupResource("", "pods/binding")
_BOUND: Final = Status(status="Success", code=201)


async def bind(server: ServerContext, call: Call, binding: Binding) -> Status:
    """Give the pod its node; ``call`` is one of the sub-resource ``binding``.

    Raises:
        StatusError: 409 if it has one already, or is being deleted; 400 if the binding is for another pod.
    """
    if binding.metadata.name and binding.metadata.name != call.name:
        raise bad_request("name in URL does not match name in Binding object")
    if not binding.target.name:
        raise failure(500, "", "target.name: Required value")
    if binding.target.kind not in {"", "Node"}:
        raise failure(
            500, "", f'target.kind: Unsupported value: "{binding.target.kind}": supported values: "Node", "<empty>"'
        )

    def bound(entry: StoredObject) -> Pod:
        _check_version(call, entry, binding.metadata.resource_version)
        pod = _bound(call, entry.object, binding, server.clock.now())
        if not pod.status.nominated_node_name or not server.gates["ClearingNominatedNodeNameAfterBinding"]:
            return pod
        # The pod counts on its node from now on. With the nomination left in place the scheduler would reserve room
        # for it twice.
        return replace(pod, status=replace(pod.status, nominated_node_name=""))

    answer = await change(server, call, bound, uid=binding.metadata.uid)
    if not server.gates.has(behaviours.ANSWERS_HAVE_REVISION):
        return _BOUND
    return replace(_BOUND, metadata=ListMeta(resource_version=str(answer.stored.revision)))


def _check_version(call: Call, entry: StoredObject, wanted: str) -> None:
    """Check the resource version of the pod that a binding may require."""
    present = entry.object.metadata.resource_version
    if wanted and wanted != present:
        raise precondition_failed(
            call, entry.key, f"ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {present}"
        )


def _bound(call: Call, pod: Pod, binding: Binding, now: float) -> Pod:
    spec: Any = pod.spec
    node = binding.target.name
    if pod.metadata.deletion_timestamp is not None:
        raise conflict(
            POD_BINDING, pod.metadata.name, f"pod {pod.metadata.name} is being deleted, cannot be assigned to a host"
        )
    # Of two schedulers that bind one pod the second must fail: its devices and volumes are on another node.
    if spec.node_name:
        raise conflict(
            POD_BINDING, pod.metadata.name, f'pod {pod.metadata.name} is already assigned to node "{spec.node_name}"'
        )
    if spec.scheduling_gates:
        raise conflict(POD_BINDING, pod.metadata.name, f"pod {pod.metadata.name} has non-empty .spec.schedulingGates")
    metadata, marks = pod.metadata, binding.metadata
    if marks.annotations or marks.labels:
        metadata = replace(
            metadata,
            annotations={**metadata.annotations, **marks.annotations},
            labels={**metadata.labels, **marks.labels},
        )
    condition = PodCondition(
        type="PodScheduled",
        status="True",
        last_transition_time=Time(now),
        observed_generation=_observed_generation(pod),
    )
    conditions = with_condition(pod.status.conditions, condition)
    status = replace(pod.status, conditions=conditions)
    return replace(pod, metadata=metadata, spec=replace(spec, node_name=node), status=status)


def _observed_generation(pod: Pod) -> int:
    conditions = pod.status.conditions
    return pod.metadata.generation if conditions and any(c.observed_generation for c in conditions) else 0
