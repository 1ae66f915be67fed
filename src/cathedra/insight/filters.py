"""The scheduler's own filters over a state that does not change: what each of them says to a pod on each node.

The plugins are composed as the running scheduler composes them, over informers that are filled from the state and never
run. So the answers, and their words, are those that the scheduler would give at this moment; beyond them every filter
is asked about every node, while the scheduler stops at a node's first refusal (docs/spec/scheduling.md §1).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final, cast

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.transport import Transport
from cathedra.clock import SystemClock
from cathedra.insight.reading.kinds import READ_KINDS
from cathedra.insight.reading.state import ClusterState
from cathedra.scheduler.composition import compose, device_plugin
from cathedra.scheduler.configuration.reading import DEFAULT_CONFIGURATION
from cathedra.scheduler.dynamicresources.cycle import ClaimCycle
from cathedra.scheduler.dynamicresources.plugin import DynamicResources
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Code, Status
from cathedra.scheduler.nodesearch import nodes_to_find
from cathedra.scheduler.profile import Scope
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.nominations import Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.pods import is_terminal

__all__ = ["Filters", "Judgement"]

_FOLLOWED: Final = frozenset(
    (
        *("deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"),
        *("namespaces", "podgroups", "poddisruptionbudgets", "pods"),
    )
)


class Judgement(msgspec.Struct, frozen=True):
    """What all filters say to a pod."""

    waiting: Status | None = None
    """Why the pod would not be tried at all: scheduling gates, claims that are not there, an incomplete gang."""
    ended: Status | None = None
    """What ended the attempt before any node was looked at."""
    outside: Mapping[str, tuple[Status, ...]] = msgspec.field(default_factory=dict)
    """Node → the refusals of all filters but DynamicResources."""
    devices: Mapping[str, Status] = msgspec.field(default_factory=dict)
    """Node → the refusal of DynamicResources."""
    cycle: ClaimCycle | None = None
    """What DynamicResources made of the claims; None if it has nothing to do, or refused before."""
    nodes: tuple[str, ...] = ()

    @property
    def passing(self) -> tuple[str, ...]:
        """The nodes that no filter refuses, in the order of the scheduler's search."""
        if self.waiting is not None or self.ended is not None:
            return ()
        return tuple(name for name in self.nodes if not self.outside.get(name) and name not in self.devices)

    @property
    def fitting(self) -> tuple[str, ...]:
        """The nodes that take the pod now; none if the search meets an error, which ends it for all nodes."""
        passing = self.passing
        wanted = nodes_to_find(len(self.nodes))
        found, good = 0, set(passing)
        for name in self.nodes:
            if name in good:
                found += 1
            elif not self.outside.get(name) and name in self.devices and not self.devices[name].rejected:
                return ()
            if found >= wanted:
                break
        return passing


class Filters:
    """The filters of the default profile, over one state."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        clock = SystemClock()
        # Filters read informers alone; nothing here is ever sent to a server.
        client = Client(cast(Transport, None), clock=clock)
        informers = SharedInformers(client, clock)
        for kind in READ_KINDS:
            if kind.plural in _FOLLOWED:
                store = informers.of(cast(Any, kind.ref)).store
                for one in state.all(kind.ref.type):
                    store.put(one)
                for what in state.undecodable:
                    if what.kind == kind.ref.kind:
                        store.put_undecodable(what)
        recorder = EventRecorder(client, "default-scheduler", clock)
        configuration = DEFAULT_CONFIGURATION.profiles[0]
        self.plugin: DynamicResources = device_plugin(
            client, informers, recorder, configuration, clock=clock, random=Random(0), gates=state.gates
        )
        self._profile = compose(
            client,
            informers,
            recorder,
            clock=clock,
            configuration=configuration,
            devices=self.plugin,
            nominations=Nominations(),
            gates=state.gates,
            has_place=lambda uid: self._cache.place_of(uid) is not None,
        )
        self.plugin.listen(informers, _ignore)
        self._cache = Cache()
        for node in state.nodes:
            self._cache.set_node(node)
        for pod in state.pods:
            if pod.spec.node_name and not is_terminal(pod):
                self._cache.add_pod(pod)

    def node(self, name: str) -> NodeInfo | None:
        """A node with the pods on it."""
        return self._cache.node(name)

    def judge(self, pod: Pod, *, only: frozenset[str] | None = None, devices: bool = True) -> Judgement:
        """What the filters say to ``pod``, on all nodes or ``only`` some; without ``devices`` all but one are asked."""
        info = PodInfo(pod)
        waiting = self._profile.pre_enqueue(info) if devices else None
        snapshot = self._cache.snapshot()
        state = CycleState(snapshot)
        nodes = [node for node in snapshot.nodes if only is None or node.name in only]
        names = tuple(node.name for node in nodes)
        if waiting is not None and waiting.plugin == self.plugin.name:
            return Judgement(waiting=waiting, nodes=names)
        scope = self._profile.pre_filter(state, info, snapshot)
        cycle: ClaimCycle | None = state.data.get(self.plugin.name)
        if isinstance(scope, Status) and (devices or scope.plugin != self.plugin.name):
            return Judgement(waiting=waiting, ended=scope, cycle=cycle, nodes=names)
        outside: dict[str, list[Status]] = {}
        refused: dict[str, Status] = {}
        if isinstance(scope, Scope) and scope.nodes is not None:
            text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(scope.narrowed_by))}]"
            status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), "NodeAffinity")
            outside = {name: [status] for name in names if name not in scope.nodes}
        calls = self._profile.batch_filters(state, info, nodes) if len(nodes) > 1 and only is None else None
        for call in calls if calls is not None else self._profile.filters(state):
            plugin = call.plugin
            mine = plugin.name == self.plugin.name
            if mine and not devices:
                continue
            for node in nodes:
                if node in call.passing:
                    continue
                found = call.refused.get(node) or plugin.filter(state, info, node)
                if found is None:
                    continue
                if mine:
                    refused[node.name] = found.of(plugin.name)
                else:
                    outside.setdefault(node.name, []).append(found.of(plugin.name))
        return Judgement(
            waiting=waiting,
            outside={name: tuple(statuses) for name, statuses in outside.items()},
            devices=refused,
            cycle=cycle,
            nodes=names,
        )


def _ignore(change: object) -> None:
    """Nothing waits for changes of a state that does not change."""
