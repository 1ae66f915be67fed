"""Nodes: registered by their agents together with a status."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, ErrorType, FieldError, FieldPath
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import PROXY_VERBS, Column, ConnectedSubresource, RequestContext, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules, SpecStrategy
from cathedra.semantics.conditions import find_condition

__all__ = ["NodeStrategy", "node_cells", "node_definition", "validate_node"]

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
"""Kubernetes looks for the taints of the spec there when something is wrong with them."""
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_node(node: core_v1.Node) -> ErrorList:
    """Return the errors of the taints of a node, which are one for each key and effect."""
    errors = ErrorList()
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(node.spec.taints):
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
    return errors


class NodeStrategy(SpecStrategy[core_v1.Node]):
    """A node agent registers its node together with the status: unlike others, this one is kept on create."""

    def prepare_create(self, obj: core_v1.Node, context: RequestContext) -> core_v1.Node:
        """Keep the status."""
        return obj


def node_definition() -> ResourceDefinition[core_v1.Node]:
    """The definition of nodes."""
    return BuiltinKind(
        core_v1.Node,
        "nodes",
        namespaced=False,
        strategy=NodeStrategy(rules=ObjectRules(validate_node, lambda new, old: validate_node(new))),
        connected=(ConnectedSubresource("proxy", PROXY_VERBS, "NodeProxyOptions"),),
        table=(NODE_COLUMNS, node_cells),
        short_names=("no",),
        field_selectors={"spec.unschedulable": lambda node: "true" if node.spec.unschedulable else "false"},
    ).definition()


def node_cells(node: core_v1.Node, now: float) -> list[Any]:
    """Cells of a Node."""
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
