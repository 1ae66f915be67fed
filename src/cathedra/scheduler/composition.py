"""The profiles: kube-scheduler's plugins in kube-scheduler's order, wired to one client.

A node that an earlier plugin refuses never reaches DynamicResources, so the order is part of the behaviour
(docs/spec/scheduling.md §17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from cathedra.client.informer import SharedInformers
from cathedra.client.resources import NAMESPACES, RESOURCEQUOTAS, RESOURCESLICES
from cathedra.releases import behaviours
from cathedra.scheduler.configuration.enablement import VOLUME_PLUGINS
from cathedra.scheduler.configuration.reading import ProfileConfiguration
from cathedra.scheduler.dynamicresources.cycle import Timeouts
from cathedra.scheduler.dynamicresources.plugin import DynamicResources
from cathedra.scheduler.framework.plugin import ClaimPlugin, CycleState, Notify, Plugin, PluginContext, PluginObserver
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.nodesearch import try_out_with_nominated
from cathedra.scheduler.plugins.binder import DefaultBinder
from cathedra.scheduler.plugins.device_quota import DeviceQuota
from cathedra.scheduler.plugins.device_scoring import DeviceScoring
from cathedra.scheduler.plugins.gangs import GangScheduling, StoredGroups
from cathedra.scheduler.plugins.gates import SchedulingGates
from cathedra.scheduler.plugins.image_locality import ImageLocality
from cathedra.scheduler.plugins.interpod_affinity import InterPodAffinity
from cathedra.scheduler.plugins.joint_placement import JointPlacement
from cathedra.scheduler.plugins.node_fitness import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration
from cathedra.scheduler.plugins.node_ports import NodePorts
from cathedra.scheduler.plugins.node_resources import FitOptions, NodeResourcesBalancedAllocation, NodeResourcesFit
from cathedra.scheduler.plugins.preemption import DefaultPreemption
from cathedra.scheduler.plugins.topology_spread import PodTopologySpread, RelatedPods
from cathedra.scheduler.plugins.volumes import (
    NodeVolumeLimits,
    VolumeBinding,
    VolumeObjects,
    VolumeRestrictions,
    VolumeZone,
)
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.state.cache import Nominations
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo


def device_plugin(context: PluginContext, configuration: ProfileConfiguration) -> DynamicResources:
    """Return the plugin that all profiles share, because they share what is allocated."""
    timeouts = Timeouts(configuration.filter_timeout, configuration.binding_timeout)
    return DynamicResources(context, timeouts)


def compose(
    context: PluginContext,
    configuration: ProfileConfiguration,
    *,
    devices: ClaimPlugin,
    nominations: Nominations,
    has_place: Callable[[str], bool],
    observer: PluginObserver | None = None,
) -> Profile:
    """Return the profile of ``configuration``; ``has_place`` returns True for pods that have, or are assumed on, a
    node."""

    def fits(pod: PodInfo, state: CycleState, node: NodeInfo) -> Status | None:
        return try_out_with_nominated(profile, nominations, pod, state, node)

    informers, gates = context.informers, context.gates
    there = configuration.plugins.plugins()
    options = FitOptions(configuration.scoring, configuration.ignored_resources, configuration.ignored_resource_groups)
    share = (configuration.candidate_percentage, configuration.fewest_candidates)
    fit = NodeResourcesFit(devices.backs, options, devices.usage)
    if devices.name not in there:
        fit = NodeResourcesFit(_never, options)
    plugins: list[Plugin] = [
        SchedulingGates(),
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(configuration.added_affinity),
        NodePorts(),
        fit,
        *_volume_plugins(informers, there),
        PodTopologySpread(
            RelatedPods(informers).selector,
            configuration.default_constraints,
            counts_empty=gates.has(behaviours.EMPTY_SPREAD_SELECTORS_COUNT),
        ),
        InterPodAffinity(
            informers.of(NAMESPACES).store,
            configuration.hard_affinity_weight,
            ignores_wishes_of_others=configuration.ignores_wishes_of_others,
        ),
        devices,
        DefaultPreemption(context, nominations, fits, share, observer, devices),
        NodeResourcesBalancedAllocation(),
        ImageLocality(),
        DefaultBinder(context.client, context.clock),
    ]
    chosen = [plugin for plugin in plugins if plugin.name in there]
    if DeviceScoring.name in there:
        slices = informers.of(RESOURCESLICES).store
        strategy, attribute = configuration.device_strategy, configuration.spread_attribute
        chosen.append(DeviceScoring(devices, slices, strategy, attribute))
    if DeviceQuota.name in there:
        quotas = informers.of(RESOURCEQUOTAS).store
        chosen.append(DeviceQuota(quotas, devices.held_in, devices.usable_claims, devices.device_of))
    if JointPlacement.name in there:
        slices = informers.of(RESOURCESLICES).store
        chosen.append(JointPlacement(slices, devices.allocation_of, devices.device_of, configuration.joint_trials))
    if gates.gang_scheduling:
        chosen.append(GangScheduling(StoredGroups.of(informers, gates), has_place))
    profile = Profile(chosen, configuration.name, configuration.plugins, observer)
    return profile


def followers(profiles: Iterable[ProfileConfiguration]) -> list[Callable[[SharedInformers, Notify], None]]:
    """Return what adds the handlers of objects that only some plugins read."""
    there = frozenset[str]().union(*(one.plugins.plugins() for one in profiles))
    found: list[Callable[[SharedInformers, Notify], None]] = []
    if there & VOLUME_PLUGINS:
        found.append(VolumeObjects.listen)
    if DeviceQuota.name in there:
        found.append(DeviceQuota.listen)
    return found


def _volume_plugins(informers: SharedInformers, there: frozenset[str]) -> list[Plugin]:
    """Return the plugins on volumes, in kube-scheduler's order. A profile without them needs no informers for them."""
    if not there & VOLUME_PLUGINS:
        return []
    objects = VolumeObjects.of(informers)
    return [kind(objects) for kind in (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)]


def _never(resource: str) -> bool:
    return False


class MakeClaimPlugin(Protocol):
    """Makes the plugin of a scheduler."""

    def __call__(self, context: PluginContext, configuration: ProfileConfiguration) -> ClaimPlugin:
        """Return the plugin, not listening yet."""
