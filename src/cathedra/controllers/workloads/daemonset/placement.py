"""Where the pods of a daemon set belong, and how each is made for its node. Pure.

Source: ``pkg/controller/daemon/daemon_controller.go`` (NodeShouldRunDaemonPod), ``util/daemonset_util.go``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from cathedra.api.core.apps_v1 import DaemonSet
from cathedra.api.core.core_v1 import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Toleration,
)
from cathedra.api.selectors import node_selector_matches
from cathedra.api.struct import replace
from cathedra.controllers.podcontrol import pod_from_template
from cathedra.controllers.workloads.templates import REVISION_HASH
from cathedra.semantics.tolerations import HARD_EFFECTS, first_untolerated

__all__ = ["daemon_pod", "may_stay", "oldest_first", "should_run", "target_node"]

TEMPLATE_GENERATION: Final = "pod-template-generation"
_TEMPLATE_GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"
_TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


def oldest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Pods with a node first, of those the oldest."""
    return sorted(
        pods, key=lambda pod: (not pod.spec.node_name, str(pod.metadata.creation_timestamp), pod.metadata.name)
    )


def daemon_pod(obj: DaemonSet, node: str, digest: str) -> Pod:
    """The daemon's pod for a node, in the version that ``digest`` names."""
    made = pod_from_template(obj.spec.template, obj)
    labels = {**made.metadata.labels, REVISION_HASH: digest}
    generation = obj.metadata.annotations.get(_TEMPLATE_GENERATION_ANNOTATION)
    if generation:
        labels[TEMPLATE_GENERATION] = generation
    spec = replace(made.spec, affinity=_pinned(made.spec, node), tolerations=_tolerations(made.spec))
    return replace(made, metadata=replace(made.metadata, labels=labels), spec=spec)


def _pinned(spec: PodSpec, node: str) -> Affinity:
    """The pod's affinity with one required term left: that very node. The scheduler does the binding."""
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    affinity = spec.affinity or Affinity()
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=required
    )
    return replace(affinity, node_affinity=node_affinity)


def _tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    wanted = list(_TOLERATED)
    if spec.host_network:
        wanted.append(("network-unavailable", "NoSchedule"))
    added = tuple(
        Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect=effect) for key, effect in wanted
    )
    return (*spec.tolerations, *(toleration for toleration in added if toleration not in spec.tolerations))


def target_node(pod: Pod) -> str:
    """The node that a pod runs on, or that it is pinned to."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in (required.node_selector_terms or ()) if required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def _fits(obj: DaemonSet, node: Node) -> bool:
    spec = obj.spec.template.spec
    if spec.node_name and spec.node_name != node.metadata.name:
        return False
    if not spec.node_selector.items() <= node.metadata.labels.items():
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or node_selector_matches(required, node)


def _is_repelled(obj: DaemonSet, node: Node, effects: Collection[str]) -> bool:
    return first_untolerated(node.spec.taints, _tolerations(obj.spec.template.spec), effects) is not None


def should_run(obj: DaemonSet, node: Node) -> bool:
    """Whether the node is to have a pod."""
    return _fits(obj, node) and not _is_repelled(obj, node, HARD_EFFECTS)


def may_stay(obj: DaemonSet, node: Node) -> bool:
    """Whether a pod that the node has may go on."""
    return _fits(obj, node) and not _is_repelled(obj, node, ("NoExecute",))
