"""Cycle of a hierarchy of pod groups, from 1.37 on: all its waiting pods are tried together.

The hierarchy is walked from its root. A PodGroup tries its pods one after the other and holds each on its node; a
CompositePodGroup tries its groups. After each child PlacementFeasible decides whether the group has enough, may still
get enough, or fails; a group that fails gives up what it holds before its sibling is tried. A group with a topology
constraint is tried in each domain of its parent's nodes, and placed in the best one. Nothing is bound unless the root
succeeds (KEP-4671, KEP-5732, KEP-6012; docs/spec/scheduling.md §14).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.goquote import go_quote
from cathedra.scheduler.bindingcycle import BindingCycle, HeldPod
from cathedra.scheduler.configuration.document import DEFAULT_SCHEDULER
from cathedra.scheduler.failure import Failures
from cathedra.scheduler.framework.diagnosis import Diagnosis, UnschedulablePod
from cathedra.scheduler.framework.plugin import TOGETHER, CycleState
from cathedra.scheduler.framework.status import Code, Status, error, unschedulable
from cathedra.scheduler.groupcycle import PodGroupOutcome
from cathedra.scheduler.jointsearch import JointPod, JointSearch, Trials, joint_pods, tree_status
from cathedra.scheduler.narrowing import Wish
from cathedra.scheduler.nodesearch import SelectedNode
from cathedra.scheduler.plugins.gangs import placement_feasible
from cathedra.scheduler.plugins.joint_placement import JointPlacement, Placements
from cathedra.scheduler.podsearch import ClaimsOf, Found, SearchScope
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.groupdomains import Domain, Members
from cathedra.semantics.podgroups import GroupKey, GroupNode, topology_key

_RESOURCES: Final = ("cpu", "memory")
"""Resources whose use is compared between placements."""
_PREEMPTS: Final = "PreemptLowerPriority"
UNSCHEDULABLE: Final = "pod group is unschedulable"

Within = Domain | None
"""Nodes, and values of devices, that a group may use; None for all."""

FindWithin = Callable[[QueuedPodInfo, dict[str, Any], SearchScope], Awaitable[Found]]
"""Searches the node of one pod, given the plugins' state of the group."""

PlacedPods = Callable[[GroupKey], Sequence[str]]
"""Returns the nodes of the pods of a PodGroup that have one."""

Pending = Mapping[GroupKey, Sequence[QueuedPodInfo]]
"""PodGroup → its pods that are tried, in their order."""


class Room(msgspec.Struct, frozen=True):
    """Outcome of a preemption for a hierarchy."""

    message: str = ""
    """The reason why no room could be made."""
    nodes: Mapping[str, str] = msgspec.field(default_factory=dict)
    """UID of a pod → the node that is being cleared for it."""


class TriedPod(msgspec.Struct, frozen=True):
    """A pod and the outcome of its search."""

    entry: QueuedPodInfo
    outcome: HeldPod | UnschedulablePod | Status
    state: CycleState
    """State of the plugins for the pod."""


class GroupResult(msgspec.Struct):
    """Result of trying a group and all groups below it."""

    node: GroupNode
    status: Status | None = None
    """None if the group has enough children; otherwise an Unschedulable or an error."""
    pods: list[TriedPod] = msgspec.field(default_factory=list)
    children: list[GroupResult] = msgspec.field(default_factory=list)

    def held(self) -> Iterator[HeldPod]:
        """Yield the pods that hold a node, in the order in which they were tried."""
        for one in self.pods:
            if isinstance(one.outcome, HeldPod):
                yield one.outcome
        for child in self.children:
            yield from child.held()

    def all(self) -> Iterator[GroupResult]:
        """Yield the result and those of all groups that were tried below it."""
        yield self
        for child in self.children:
            yield from child.all()


def _none_of(what: object) -> Sequence[Any]:
    return ()


class UnitOptions(msgspec.Struct, frozen=True):
    """Sources and switches of a cycle besides its pods."""

    snapshot: Callable[[], Snapshot]
    placed: PlacedPods
    """Returns the nodes of a group's pods that have one, or are assumed on one."""
    topology: bool
    """True if topology constraints hold (gate TopologyAwareWorkloadScheduling)."""
    joint: JointPlacement | None = None
    """Has all pods of a group placed together where one after the other is not enough."""
    claims: ClaimsOf = _none_of
    wishes: Callable[[Pod], Sequence[Wish]] = _none_of
    """Returns the preferred constraints of a pod's claims."""
    pods: Callable[[GroupKey], Iterable[Pod]] = _none_of
    """Returns all pods of a PodGroup."""


MakeRoom = Callable[[GroupResult, Pending], Awaitable[Room]]
"""Makes room for a hierarchy that does not fit."""


class Trial:
    """Tries a hierarchy once. Its pods keep their nodes and devices until `give_up`."""

    def __init__(self, binding: BindingCycle, find: FindWithin, pending: Pending, options: UnitOptions) -> None:
        self._binding = binding
        self._find = find
        self._pending = pending
        self._options = options
        self._shared: dict[str, Any] = {}
        self._strict = False
        """True while the preferences of all claims are required."""
        self._held: list[HeldPod] = []
        """All that is held now, the latest last."""

    async def run(self, root: GroupNode) -> GroupResult:
        """Try the hierarchy. If a plugin raises, nothing stays held."""
        try:
            result = await self._preferred(root) or await self._group(root, None)
        # Cancellation included: pods that stay assumed would block their nodes until the scheduler restarts.
        except BaseException:
            await self.give_up()
            raise
        if result.status is None and not self._held:
            # All children that are needed run already, and none of the waiting pods fits.
            result.status = unschedulable(UNSCHEDULABLE)
        return result

    async def _preferred(self, root: GroupNode) -> GroupResult | None:
        """Try the hierarchy with the preferences of all claims; return None if it does not fit so."""
        if not any(self._options.wishes(entry.info.pod) for entry in self._entries(root)):
            return None
        self._strict = True
        result = await self._group(root, None)
        self._strict = False
        if result.status is None and self._held:
            return result
        await self.give_up()
        return None

    async def give_up(self, down_to: int = 0) -> None:
        """Release what was held after the first ``down_to`` pods."""
        # In reverse order, as Unreserve runs: a later pod may share the claim that an earlier one has decided.
        while len(self._held) > down_to:
            await self._binding.release(self._held.pop())

    async def _group(self, node: GroupNode, within: Within) -> GroupResult:
        chosen_sets = self._placements(node, within)
        if chosen_sets is None:
            return await self._children(node, within)
        placements = chosen_sets.domains
        # A nomination comes from a preemption for this very placement, which is therefore tried first.
        wanted = {entry.info.pod.status.nominated_node_name for entry in self._entries(node)} - {""}
        placements.sort(key=lambda domain: -len(wanted & domain.nodes))
        best: tuple[float, ...] | None = None
        chosen: Domain | None = None
        first: GroupResult | None = None
        for domain in placements:
            before = len(self._held)
            result = await self._children(node, domain)
            score = (len(self._held) - before, utilisation(self._options.snapshot(), domain.nodes))
            await self.give_up(before)
            if result.status is not None and not result.status.rejected:
                return result
            first = first or result
            if result.status is None and (best is None or score > best):
                best, chosen = score, domain
            if result.status is None and wanted & domain.nodes:
                break
        if chosen is not None:
            # Tried again instead of restored: plugins keep no decision of a pod that was released.
            return await self._children(node, chosen)
        if chosen_sets.others:
            return await self._children(node, within)
        result = first or GroupResult(node)
        why = result.status.message if result.status is not None and result.status.message else UNSCHEDULABLE
        said = f", first placement status: {why}" if first is not None else ""
        result.status = unschedulable(f"0/{len(placements)} placements are available{said}")
        return result

    def _placements(self, node: GroupNode, within: Within) -> Placements | None:
        """Return the sets of nodes that the group is tried on one after the other; None if it has no constraint."""
        key = topology_key(node.group) if self._options.topology else ""
        joint = self._options.joint
        if not key and joint is None:
            return None
        placed = [name for leaf in node.leaves() for name in self._options.placed(leaf.key)]
        snapshot = self._options.snapshot()

        def members() -> Members:
            pods = [pod for leaf in node.leaves() for pod in self._options.pods(leaf.key)]
            return Members(tuple(placed), tuple([one for pod in pods for one in self._options.claims(pod) or ()]))

        near = joint.placements(node.group, snapshot, within, members) if joint is not None else None
        if not key:
            return near
        values = within.values if within is not None else ()
        names = within.nodes if within is not None else None
        labelled = [Domain(one, values) for one in domains(snapshot, key, names, placed)]
        if near is None:
            return Placements(labelled)
        both = [common for one in labelled for other in near.domains if (common := other.within(one)).nodes]
        return Placements([*both, *labelled] if near.others else both)

    def _entries(self, node: GroupNode) -> Iterator[QueuedPodInfo]:
        for leaf in node.leaves():
            yield from self._pending.get(leaf.key, ())

    async def _children(self, node: GroupNode, within: Within) -> GroupResult:
        before = len(self._held)
        result = GroupResult(node)
        result.status = await (self._groups(result, within) if node.is_composite else self._pods(result, within))
        if result.status is not None:
            if result.status.code is Code.WAIT:
                result.status = unschedulable(*result.status.reasons)
            await self.give_up(before)
            if self._options.joint is not None and result.status.rejected and not self._is_constrained(node):
                return await self._jointly(result, within, self._options.joint)
        return result

    def _is_constrained(self, node: GroupNode) -> bool:
        """Return True if a group below this one has a constraint of its own, which the joint search does not know."""
        below = (one for child in node.children for one in child.nodes())
        return any(self._placements(one, None) is not None for one in below)

    async def _jointly(self, refused: GroupResult, within: Within, joint: JointPlacement) -> GroupResult:
        """Search nodes for all pods together; return what was refused, with the reason, if that fails too."""
        node, before = refused.node, len(self._held)
        pending = [(leaf.key, entry) for leaf in node.leaves() for entry in self._pending.get(leaf.key, ())]
        placed = {leaf.key: len(self._options.placed(leaf.key)) for leaf in node.leaves()}
        # Without enough pods no search can help, nor with one pod alone.
        counts = {leaf.key: len(self._pending.get(leaf.key, ())) for leaf in node.leaves()}
        status = tree_status(node, placed, counts)
        if not joint.most_trials or len(pending) < 2 or (status is not None and status.code is not Code.WAIT):
            return refused

        async def release() -> None:
            await self.give_up(len(self._held) - 1)

        async def look(entry: QueuedPodInfo) -> SelectedNode | UnschedulablePod | Status:
            outcome, _ = await self._find(entry, self._shared, self._scope(within))
            return outcome

        async def hold(
            entry: QueuedPodInfo, excluded: frozenset[str]
        ) -> tuple[HeldPod | UnschedulablePod | Status, CycleState]:
            return await self._try(entry, within, excluded)

        names = within.nodes if within is not None else frozenset(one.name for one in self._options.snapshot().nodes)
        pods = joint_pods(pending, self._options.claims)
        trials, most = Trials(look, hold, release), joint.most_trials
        search = JointSearch(node, placed, names, trials, most, order_matters=joint.has_common_devices())
        first = next((one.entry.uid for one in _refused_pods(refused)), "")
        self._shared[TOGETHER] = True
        try:
            held = sum(1 for _ in refused.held())
            found = await search.run(pods, first, sum(placed.values()) + held)
        finally:
            del self._shared[TOGETHER]
        if found:
            return _joint_result(node, search, pods, placed)
        await self.give_up(before)
        if search.broken is not None:
            refused.status = error(f"failed to schedule other pod from a pod group: {search.broken.message}")
        elif refused.status is not None:
            refused.status = unschedulable(*refused.status.reasons, search.refusal())
        return refused

    def _scope(self, within: Within, excluded: frozenset[str] = frozenset()) -> SearchScope:
        if within is None:
            return SearchScope(None, excluded, strict=self._strict)
        return SearchScope(within.nodes, excluded, within.values, self._strict)

    async def _groups(self, result: GroupResult, within: Within) -> Status | None:
        scheduled, remaining = 0, len(result.node.children)
        status = placement_feasible(result.node, scheduled, remaining)
        for child in result.node.children:
            if status is not None and status.code is not Code.WAIT:
                break
            tried = await self._group(child, within)
            result.children.append(tried)
            if tried.status is not None and not tried.status.rejected:
                return error(f"composite pod group evaluation failed due to child error: {tried.status.message}")
            scheduled, remaining = scheduled + (tried.status is None), remaining - 1
            status = placement_feasible(result.node, scheduled, remaining)
        return status

    async def _pods(self, result: GroupResult, within: Within) -> Status | None:
        entries = self._pending.get(result.node.key, ())
        scheduled, remaining = len(self._options.placed(result.node.key)), len(entries)
        status = placement_feasible(result.node, scheduled, remaining)
        for entry in entries:
            if status is not None and status.code is not Code.WAIT:
                break
            outcome, state = await self._try(entry, within)
            result.pods.append(TriedPod(entry, outcome, state))
            if isinstance(outcome, Status):
                return error(f"failed to schedule other pod from a pod group: {outcome.message}")
            scheduled, remaining = scheduled + isinstance(outcome, HeldPod), remaining - 1
            status = placement_feasible(result.node, scheduled, remaining)
        return status

    async def _try(
        self, entry: QueuedPodInfo, within: Within, excluded: frozenset[str] = frozenset()
    ) -> tuple[HeldPod | UnschedulablePod | Status, CycleState]:
        outcome, state = await self._find(entry, self._shared, self._scope(within, excluded))
        if not isinstance(outcome, SelectedNode):
            return outcome, state
        held = await self._binding.hold(entry, state, outcome.node)
        if isinstance(held, HeldPod):
            self._held.append(held)
        return UnschedulablePod(held) if isinstance(held, Diagnosis) else held, state


class UnitCycle:
    """Tries hierarchies, and has the outcome written."""

    def __init__(
        self, binding: BindingCycle, failures: Failures, find: FindWithin, options: UnitOptions, make_room: MakeRoom
    ) -> None:
        self._binding = binding
        self._failures = failures
        self._find = find
        self._options = options
        self._make_room = make_room

    async def run(self, root: GroupNode, pending: Pending) -> Mapping[GroupKey, PodGroupOutcome]:
        """Bind the hierarchy or return its pods to the queue, and return the outcome of every group."""
        trial = Trial(self._binding, self._find, pending, self._options)
        result = await trial.run(root)
        room = Room()
        if result.status is not None:
            await trial.give_up()
            if result.status.rejected:
                room = await self._make_room(result, pending)
                if room.message:
                    result.status = unschedulable(*result.status.reasons, room.message)
        tried = {one.node.key: one for one in result.all()}
        outcomes: dict[GroupKey, PodGroupOutcome] = {}
        plugins = {
            name
            for one in tried.values()
            for pod in one.pods
            if isinstance(pod.outcome, UnschedulablePod)
            for name in pod.outcome.diagnosis.unschedulable_plugins
        }
        self._settle(root, result.status, tried, outcomes)
        for leaf in root.leaves():
            status = outcomes[leaf.key]
            pods = {one.entry.uid: one.outcome for one in tried[leaf.key].pods} if leaf.key in tried else {}
            for entry in pending.get(leaf.key, ()):
                self._submit(entry, pods.get(entry.uid), status, room.nodes.get(entry.uid), plugins)
        return outcomes

    def _settle(
        self,
        node: GroupNode,
        above: Status | None,
        tried: Mapping[GroupKey, GroupResult],
        outcomes: dict[GroupKey, PodGroupOutcome],
    ) -> None:
        """Enter the outcome of a group. What failed above fails it too, and an error above replaces its own refusal."""
        result = tried.get(node.key)
        status = result.status if result is not None else above
        if above is not None and (status is None or not above.rejected):
            status = above
        outcomes[node.key] = _outcome(status)
        for child in node.children:
            self._settle(child, status, tried, outcomes)

    def _submit(
        self,
        entry: QueuedPodInfo,
        outcome: HeldPod | UnschedulablePod | Status | None,
        group: PodGroupOutcome,
        nominated: str | None,
        plugins: Collection[str],
    ) -> None:
        if isinstance(outcome, Status):
            self._failures.broke(entry, outcome)
        elif group.reason == "SchedulerError":
            self._failures.broke(entry, error(group.message))
        elif isinstance(outcome, HeldPod) and group.reason == "Scheduled":
            self._binding.write(outcome)
        elif isinstance(outcome, UnschedulablePod):
            # Without room being made, an older nomination is taken back.
            self._failures.refused(entry, UnschedulablePod(outcome.diagnosis, nominated or ""))
        else:
            self._failures.held_back(entry, group.message or UNSCHEDULABLE, nominated or "", plugins)


def _refused_pods(result: GroupResult) -> Iterator[TriedPod]:
    for one in result.all():
        yield from (pod for pod in one.pods if isinstance(pod.outcome, UnschedulablePod))


def _joint_result(
    node: GroupNode, search: JointSearch, pods: Sequence[JointPod], placed: Mapping[GroupKey, int]
) -> GroupResult:
    """Return the result of a hierarchy whose pods a joint search has placed."""
    known = {
        key: [
            TriedPod(one.entry, found.outcome, found.state)
            for one in pods
            if one.key == key and (found := search.outcomes.get(one.entry.uid)) is not None
        ]
        for key in {one.key for one in pods}
    }
    counts = {
        key: placed.get(key, 0) + sum(isinstance(one.outcome, HeldPod) for one in tried) for key, tried in known.items()
    }
    counts = {**placed, **counts}

    def result_of(one: GroupNode) -> GroupResult:
        children = [result_of(child) for child in one.children]
        return GroupResult(one, tree_status(one, counts, {}), known.get(one.key, []), children)

    return result_of(node)


def _outcome(status: Status | None) -> PodGroupOutcome:
    if status is None:
        return PodGroupOutcome("Scheduled")
    return PodGroupOutcome("Unschedulable" if status.rejected else "SchedulerError", status.message)


def mixed_group(
    root: GroupNode, pending: Pending, members: Callable[[GroupKey], Iterable[Pod]], *, policies: bool
) -> str:
    """Return the reason why the pods of a hierarchy cannot be tried as one; "" if there is none.

    All pods, those that have nodes too, must have one scheduler name, and the root's priority. With ``policies`` (gate
    PodGroupPreemptionPolicy) they must have the root's preemption policy, otherwise one of their own.
    """
    waiting = [entry.info.pod for entries in pending.values() for entry in entries]
    policy = (root.group.spec.preemption_policy or _PREEMPTS) if policies else _policy(waiting[0])
    of_group = "the pod group's preemption policy" if policies else ""
    first = waiting[0].spec.scheduler_name or DEFAULT_SCHEDULER
    priority = root.group.spec.priority or 0
    for pod in (*waiting, *(pod for leaf in root.leaves() for pod in members(leaf.key))):
        name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
        if name != first:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f"got: {go_quote(name)} and {go_quote(first)}"
            )
        if (pod.spec.priority or 0) != priority:
            return (
                "all pods in a single pod group should have the same priority as the pod group's priority, "
                f"got {pod.spec.priority or 0} and {priority}"
            )
        if _policy(pod) != policy:
            same = "all pods in a single pod group should have the same preemption policy"
            return f"{same}{f' as {of_group}' if of_group else ''}, got {_policy(pod)} and {policy}"
    return ""


def _policy(pod: Pod) -> str:
    return pod.spec.preemption_policy or _PREEMPTS


def domains(
    snapshot: Snapshot, key: str, within: frozenset[str] | None, placed: Collection[str]
) -> list[frozenset[str]]:
    """Return the sets of nodes with equal values of label ``key``, in the order of the nodes. Nodes without the label
    are in none.

    ``within`` has the nodes of the parent's placement. If pods of the group are ``placed`` already, only a domain with
    all of their nodes will do.
    """
    found: dict[str, set[str]] = {}
    for info in snapshot.nodes:
        value = info.node.metadata.labels.get(key)
        if value is not None and (within is None or info.name in within):
            found.setdefault(value, set()).add(info.name)
    return [frozenset(names) for names in found.values() if names.issuperset(placed)]


def utilisation(snapshot: Snapshot, names: frozenset[str]) -> float:
    """Return the used share of the nodes' cpu and memory, between 0 and 1: the fuller of two placements is better,
    because the emptier one stays whole for larger groups."""
    shares: list[float] = []
    for resource in _RESOURCES:
        nodes = [snapshot.by_name[name] for name in names]
        there = sum(node.allocatable.get(resource, 0) for node in nodes)
        if there:
            shares.append(sum(node.requested.get(resource, 0) for node in nodes) / there)
    return sum(shares) / len(shares) if shares else 0.0
