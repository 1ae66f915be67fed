"""One cycle of the basic plugins over some nodes: which node is chosen, or the sentence why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from cathedra.api.core.core_v1 import Namespace, Node, Pod
from cathedra.client.store import Store
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.plugin import CycleState, Plugin
from cathedra.scheduler.nodesearch import NodeSearch, SelectedNode
from cathedra.scheduler.plugins.image_locality import ImageLocality
from cathedra.scheduler.plugins.interpod_affinity import InterPodAffinity
from cathedra.scheduler.plugins.node_fitness import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration
from cathedra.scheduler.plugins.node_ports import NodePorts
from cathedra.scheduler.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from cathedra.scheduler.plugins.topology_spread import PodTopologySpread
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.state.cache import Cache, Nominations
from cathedra.scheduler.state.pod_info import PodInfo

__all__ = ["WEB", "affinity", "on", "outcome", "plugins"]

WEB: Final = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
"""A term of pod affinity: with pods of the web, in the same zone."""


def plugins() -> list[Plugin]:
    """The default profile's plugins that read only nodes and pods; ``acme.test/fpga`` has a device class."""
    return [
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(lambda resource: resource == "acme.test/fpga"),
        PodTopologySpread(),
        InterPodAffinity(Store[Namespace]()),
        NodeResourcesBalancedAllocation(),
        ImageLocality(),
    ]


def outcome(incoming: Pod, nodes: Sequence[Node], placed: Sequence[Pod] = ()) -> str:
    """The chosen node, or the sentence why there is none."""
    cache = Cache()
    for each in nodes:
        cache.set_node(each)
    for each in placed:
        cache.add_pod(each)
    found = NodeSearch(Profile(plugins()), Nominations(), Random(1)).find(
        CycleState(cache.snapshot()), PodInfo(incoming)
    )
    if isinstance(found, SelectedNode):
        return found.node
    assert isinstance(found, Diagnosis)
    return found.message()


def on(node_name: str, placed: Pod) -> Pod:
    """The pod as it is on a node."""
    return PodInfo(placed).on(node_name).pod


def affinity(kind: str, term: dict[str, Any], *, weight: int = 0) -> dict[str, Any]:
    """A pod's affinity with one term, required, or preferred if it has a weight."""
    if weight:
        terms = [{"weight": weight, "podAffinityTerm": term}]
        return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
