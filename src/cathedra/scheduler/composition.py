"""The default profile: kube-scheduler's plugins in kube-scheduler's order, wired to one client.

A node that an earlier plugin refuses never reaches DynamicResources, so the order is part of the behaviour
(docs/spec/scheduling.md §17).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from cathedra.api.gates import FeatureGates
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import NAMESPACES, PODDISRUPTIONBUDGETS
from cathedra.clock import Clock
from cathedra.scheduler.dynamicresources.plugin import DynamicResources
from cathedra.scheduler.framework.informed import InformedPlugin
from cathedra.scheduler.framework.plugin import CycleState, Plugin
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.nodesearch import try_out_with_nominated
from cathedra.scheduler.plugins.binder import DefaultBinder
from cathedra.scheduler.plugins.gates import SchedulingGates
from cathedra.scheduler.plugins.image_locality import ImageLocality
from cathedra.scheduler.plugins.interpod_affinity import InterPodAffinity
from cathedra.scheduler.plugins.node_fitness import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration
from cathedra.scheduler.plugins.node_ports import NodePorts
from cathedra.scheduler.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from cathedra.scheduler.plugins.preemption import DefaultPreemption
from cathedra.scheduler.plugins.topology_spread import PodTopologySpread
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.nominations import Nominations
from cathedra.scheduler.state.pod_info import PodInfo

__all__ = ["compose"]


def compose(
    client: Client,
    informers: SharedInformers,
    recorder: EventRecorder,
    *,
    clock: Clock,
    random: Random,
    gates: FeatureGates,
    name: str,
    nominations: Nominations,
) -> tuple[Profile, Sequence[InformedPlugin]]:
    """The profile called ``name``, and those of its plugins that follow informers."""
    dynamic = DynamicResources(client, informers, recorder, clock=clock, random=random, gates=gates)

    def fits(pod: PodInfo, state: CycleState, node: NodeInfo) -> Status | None:
        return try_out_with_nominated(profile, nominations, pod, state, node)

    plugins: list[Plugin] = [
        SchedulingGates(),
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(dynamic.backs),
        PodTopologySpread(),
        InterPodAffinity(informers.of(NAMESPACES).store),
        dynamic,
        DefaultPreemption(client, clock, recorder, informers.of(PODDISRUPTIONBUDGETS).store, fits),
        NodeResourcesBalancedAllocation(),
        ImageLocality(),
        DefaultBinder(client, clock),
    ]
    profile = Profile(plugins, name)
    return profile, (dynamic,)
