"""Changes of the pod itself, for what refuses nodes beside their devices: proposals, of which nothing is known yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from cathedra.allocation.claims.requests import CLAIM_LIMIT
from cathedra.api.core.core_v1 import Pod, Toleration
from cathedra.api.quantity import Quantity
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import replace
from cathedra.insight.explanation.analysis import Analysis
from cathedra.insight.explanation.candidates import Candidate, plain_value, with_request
from cathedra.insight.explanation.report import Edit
from cathedra.insight.rendering import amount_text
from cathedra.kinds.core.resourcenames import is_overcommittable
from cathedra.scheduler.judging import IN_MEMORY_NAME, requests_for, requests_of
from cathedra.semantics.tolerations import HARD_EFFECTS, is_tolerated

_PATHS: Final = {"scheduling_gates": "schedulingGates", "node_selector": "nodeSelector"}
"""Attributes of a pod's spec whose fields have other names."""


def pod_candidates(analysis: Analysis) -> Iterator[Candidate]:
    """Return proposals about the pod itself, for what refuses nodes beside their devices."""
    pod = analysis.pod
    if pod is None or analysis.filters is None:
        return
    where = _name_of(pod)
    spec = pod.spec
    if spec.scheduling_gates:
        names = ", ".join(gate.name for gate in spec.scheduling_gates)
        yield _changed(
            pod, "remove scheduling gates", 1, f"remove the scheduling gates {names}", "scheduling_gates", ()
        )
    outside = analysis.judgement.outside
    plugins = {status.plugin for statuses in outside.values() for status in statuses}
    reasons = {reason for statuses in outside.values() for status in statuses for reason in status.reasons}
    if "TaintToleration" in plugins or "NodeUnschedulable" in plugins:
        taints = {
            (taint.key, taint.value, taint.effect)
            for node in analysis.nodes(outside)
            for taint in node.spec.taints
            if taint.effect in HARD_EFFECTS and not is_tolerated(taint, spec.tolerations)
        }
        for key, value, effect in sorted(taints):
            toleration = Toleration(key=key, operator="Equal" if value else "Exists", value=value, effect=effect)
            text = f"tolerate the node taint {key}{'=' + value if value else ''}:{effect} in {where}"
            tolerations = (*spec.tolerations, toleration)
            yield _changed(pod, "tolerate node taint", 14, text, "tolerations", tolerations)
    if "NodeAffinity" in plugins:
        for key, value in sorted((spec.node_selector or {}).items()):
            rest = {name: one for name, one in spec.node_selector.items() if name != key}
            text = f"drop {key}={value} from the nodeSelector of {where}"
            yield _changed(pod, "drop node selector", 16, text, "node_selector", rest)
        if spec.affinity is not None and spec.affinity.node_affinity is not None:
            others = replace(spec.affinity, node_affinity=None)
            text = f"drop the node affinity of {where}"
            yield _changed(pod, "drop node affinity", 17, text, "affinity", others)
    for reason in sorted(reasons):
        if reason.startswith("Insufficient "):
            resource = reason.removeprefix("Insufficient ")
            yield from _lower_request(pod, where, resource, analysis.filters.most_free(resource, outside))


def _changed(pod: Pod, kind: str, rank: int, text: str, attribute: str, value: Any) -> Candidate:
    """Return the proposal to set an attribute of the pod's spec."""
    where, path = _name_of(pod), _PATHS.get(attribute, attribute)
    changed = replace(pod, spec=replace(pod.spec, **{attribute: value}))
    edit = Edit(where, f"spec.{path}", plain_value(getattr(pod.spec, attribute)), plain_value(value))
    return Candidate(kind, rank, text, (edit,), pod=changed, target=f"{where} {path}")


def _name_of(pod: Pod) -> str:
    return f"pod {pod.metadata.namespace}/{pod.metadata.name}"


def _lower_request(pod: Pod, where: str, resource: str, room: int) -> Iterator[Candidate]:
    """Yield the largest request, of the first container that has one, for which some node has room."""
    excess = requests_of(pod).get(resource, 0) - room
    for place, container in enumerate(pod.spec.containers):
        amount = container.resources.requests.get(resource)
        if amount is None:
            continue
        mine = amount.milli_value() if resource == "cpu" else amount.value()
        left = mine - excess
        if left <= 0:
            continue
        value = Quantity.parse(f"{left}m") if resource == "cpu" else Quantity.of_value(left, amount.format)
        changed = _with_amount(pod, place, resource, value)
        text = (
            f"lower the {resource} request of container {container.name!r} of {where} "
            f"from {amount} to {amount_text(resource, left)}"
        )
        edit = Edit(where, f"spec.containers[{place}].resources.requests.{resource}", str(amount), str(value))
        yield Candidate("lower request", 13, text, (edit,), pod=changed, target=f"{where} {resource}")
        return


def extended_candidates(pod: Pod | None, claims: Sequence[ResourceClaim]) -> Iterator[Candidate]:
    """Yield smaller requests for extended resources that devices provide, by containers that keep running.

    The claim for them is the scheduler's: it follows from the requests of the containers.
    """
    for index, claim in enumerate(claims):
        if pod is None or claim.metadata.name != IN_MEMORY_NAME:
            continue
        # The names of the requests depend on the containers alone; any class does.
        resources = {name: "" for one in pod.spec.containers for name in one.resources.requests}
        served = {one.request_name: one for one in requests_for(pod, resources).mappings}
        for number, request in enumerate(claim.spec.devices.requests or ()):
            use = served.get(request.name)
            place = next((n for n, one in enumerate(pod.spec.containers) if use and one.name == use.container_name), -1)
            if use is None or place < 0 or request.exactly is None:
                continue
            where, count, resource = _name_of(pod), request.exactly.count, use.resource_name
            path = f"spec.containers[{place}].resources.requests.{resource}"
            for left in range(min(count - 1, CLAIM_LIMIT), 0, -1):
                smaller = replace(request, exactly=replace(request.exactly, count=left))
                yield Candidate(
                    "lower request",
                    10 + count - left,
                    f"lower the {resource} request of container {use.container_name!r} of {where} "
                    f"from {count} to {left}",
                    (Edit(where, path, str(count), str(left)),),
                    claims={index: with_request(claim, number, smaller)},
                    pod=_with_amount(pod, place, resource, Quantity.parse(str(left))),
                    target=f"{where} {resource}",
                )


def _with_amount(pod: Pod, place: int, resource: str, value: Quantity) -> Pod:
    """Return the pod with another request of one container, and an equal limit where both must be equal."""
    container = pod.spec.containers[place]
    requests = {**container.resources.requests, resource: value}
    limits = {**container.resources.limits}
    if resource in limits and not is_overcommittable(resource):
        limits[resource] = value
    containers = list(pod.spec.containers)
    containers[place] = replace(container, resources=replace(container.resources, requests=requests, limits=limits))
    return replace(pod, spec=replace(pod.spec, containers=tuple(containers)))
