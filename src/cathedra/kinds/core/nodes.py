"""Nodes: registered by their agents together with a status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, ErrorType, FieldError, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.resourcenames import check_amount
from cathedra.kinds.definition import PROXY_VERBS, Column, ConnectedSubresource, RequestContext, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules, SpecStrategy
from cathedra.releases import FeatureGates, behaviours
from cathedra.semantics.conditions import find_condition

NODE_COLUMNS: Final = (
    NAME,
    Column("Status", description="Whether the node is ready for pods."),
    Column("Roles", description="The node's roles, from its labels."),
    AGE,
    Column("Version", description="The node agent's version."),
    Column("Internal-IP", priority=1, description="The node's address inside the cluster."),
    Column("External-IP", priority=1, description="The node's address from outside."),
    Column("OS-Image", priority=1, description="The operating system."),
    Column("Kernel-Version", priority=1, description="The kernel."),
    Column("Container-Runtime", priority=1, description="What runs the containers."),
)


_TAINTS: Final = FieldPath("metadata").child("taints")
"""The path under which Kubernetes reports errors of the taints of the spec."""
_FAMILIES: Final = 2
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_node(node: core_v1.Node) -> ErrorList:
    """Return the errors of a new node."""
    errors = ErrorList()
    _check_taints(errors, node.spec.taints)
    _check_resources(errors, node.status)
    _check_ranges(errors, node.spec)
    return errors


def _check_taints(errors: ErrorList, taints: Sequence[core_v1.Taint]) -> None:
    """Check taints, which are one for each key and effect."""
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(taints):
        path = _TAINTS.index(position)
        for problem in formats.label_key(taint.key):
            errors.invalid(path.child("key"), taint.key, problem)
        if problems := formats.label_value(taint.value):
            errors.invalid(path.child("value"), taint.value, ";".join(problems))
        if not taint.effect:
            errors.required(path.child("effect"))
        elif taint.effect not in _EFFECTS:
            errors.not_among(path.child("effect"), taint.effect, _EFFECTS)
        if (taint.effect, taint.key) in seen:
            unique = "taints must be unique by key and effect pair"
            errors.append(FieldError(ErrorType.DUPLICATE, path, taint, unique))
        seen.add((taint.effect, taint.key))


def validate_node_update(new: core_v1.Node, old: core_v1.Node, gates: FeatureGates) -> ErrorList:
    """Return the errors of a changed node: assigned values do not change."""
    errors = ErrorList()
    _check_resources(errors, new.status)
    _check_unique(errors, new.status)
    _check_kept_ranges(errors, new.spec.pod_cidrs, old.spec.pod_cidrs, gates)
    if old.spec.provider_id and new.spec.provider_id != old.spec.provider_id:
        errors.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
    _check_taints(errors, new.spec.taints)
    return errors


def _check_kept_ranges(errors: ErrorList, now: Sequence[str], was: Sequence[str], gates: FeatureGates) -> None:
    if was and not now and gates.has(behaviours.CLEARED_RANGES_NAMED):
        errors.invalid("spec.podCIDRs", None, "field cannot be cleared once set")
        return
    # Kubernetes reports each range that differs.
    changes = sum(a != b for a, b in zip(now, was, strict=True)) if len(now) == len(was) else bool(was)
    for _ in range(changes):
        errors.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')


def validate_node_status(new: core_v1.Node, old: core_v1.Node) -> ErrorList:
    """Return the errors of a changed status."""
    errors = ErrorList()
    _check_resources(errors, new.status)
    _check_unique(errors, new.status)
    return errors


def _check_resources(errors: ErrorList, status: core_v1.NodeStatus) -> None:
    for field, amounts in (("capacity", status.capacity), ("allocatable", status.allocatable)):
        for name, amount in sorted(amounts.items()):
            # The name stands after a dot here, not in brackets.
            check_amount(errors, FieldPath("status").child(field, name), name, amount)


def _check_unique(errors: ErrorList, status: core_v1.NodeStatus) -> None:
    for position, address in enumerate(status.addresses):
        if address in status.addresses[:position]:
            errors.duplicate(f"status.addresses[{position}]", address)


def _check_ranges(errors: ErrorList, spec: core_v1.NodeSpec) -> None:
    """Check the ranges of addresses of a node's pods: one for each family."""
    path, ranges = FieldPath("spec").child("podCIDRs"), spec.pod_cidrs
    for position, given in enumerate(ranges):
        for problem in formats.lenient_cidr(given):
            errors.invalid(path.index(position), given, problem)
    if len(ranges) > 1 and (len(ranges) > _FAMILIES or len({":" in given for given in ranges}) < _FAMILIES):
        errors.invalid(path, list(ranges), "may specify no more than one CIDR for each IP family")


def default_node(node: core_v1.Node) -> core_v1.Node:
    """Return the object with its defaults: a node of which pods may use everything. ``podCIDR`` is the first of
    ``podCIDRs``, and decides if they differ."""
    spec, status = node.spec, node.status
    if status.capacity and not status.allocatable:
        status = replace(status, allocatable=dict(status.capacity))
    ranges = spec.pod_cidrs
    if spec.pod_cidr and ranges[:1] != (spec.pod_cidr,):
        ranges = (spec.pod_cidr,)
    first = ranges[0] if ranges else ""
    if (ranges, first) != (spec.pod_cidrs, spec.pod_cidr):
        spec = replace(spec, pod_cidrs=ranges, pod_cidr=first)
    return node if spec is node.spec and status is node.status else replace(node, spec=spec, status=status)


class NodeStrategy(SpecStrategy[core_v1.Node]):
    """A node agent registers its node together with the status: unlike others, this one is kept on create."""

    def prepare_create(self, obj: core_v1.Node, context: RequestContext) -> core_v1.Node:
        """Keep the status: a kubelet registers with it."""
        return obj

    def validate_update(self, new: core_v1.Node, old: core_v1.Node, context: RequestContext) -> ErrorList:
        """Check the rules of a change, whose texts depend on the release."""
        return validate_node_update(new, old, context.gates)


def node_definition() -> ResourceDefinition[core_v1.Node]:
    """Return the definition of nodes."""
    return BuiltinKind(
        core_v1.Node,
        "nodes",
        namespaced=False,
        strategy=NodeStrategy(default_node, ObjectRules(validate_node)),
        default=default_node,
        status_rules=validate_node_status,
        connected=(ConnectedSubresource("proxy", PROXY_VERBS, "NodeProxyOptions"),),
        table=(NODE_COLUMNS, node_cells),
        short_names=("no",),
        field_selectors={"spec.unschedulable": lambda node: "true" if node.spec.unschedulable else "false"},
    ).definition()


def node_cells(node: core_v1.Node, now: float) -> list[Any]:
    """Return the cells of a Node."""
    addresses = {address.type: address.address for address in reversed(node.status.addresses)}
    info = node.status.node_info
    kernel = info.kernel_version if info else ""
    if kernel and info and info.architecture:
        kernel = f"{kernel} ({info.architecture})"
    return [
        node.metadata.name,
        _node_status(node),
        _roles(node.metadata.labels),
        age(node.metadata.creation_timestamp, now),
        info.kubelet_version if info else "",
        addresses.get("InternalIP") or "<none>",
        addresses.get("ExternalIP") or "<none>",
        (info.os_image if info else "") or "<unknown>",
        kernel or "<unknown>",
        (info.container_runtime_version if info else "") or "<unknown>",
    ]


def _node_status(node: core_v1.Node) -> str:
    ready = find_condition(node.status.conditions, "Ready")
    words = ["Unknown" if ready is None else "Ready" if ready.status == "True" else "NotReady"]
    if node.spec.unschedulable:
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(labels: dict[str, str]) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {label.removeprefix(prefix) for label in labels if label.startswith(prefix) and label != prefix}
    roles |= {value for label, value in labels.items() if label == "kubernetes.io/role" and value}
    return ",".join(sorted(roles)) or "<none>"
