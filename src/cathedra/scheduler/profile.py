"""Profile: the plugins of one scheduler, called at each extension point in their order.

The profile has no special case for any plugin. It adds the plugin's name to every status and kube-scheduler's words to
errors, and multiplies scores by weights (docs/spec/scheduling.md §1 and §16).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from itertools import repeat
from typing import Final, TypeVar, TypeVarTuple

import msgspec

from cathedra.scheduler.configuration.enablement import POINTS, Enablement
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.events import EventRegistration
from cathedra.scheduler.framework.plugin import (
    BindPlugin,
    CycleState,
    Evaluations,
    FilterPlugin,
    Narrowed,
    NodePredicate,
    Nomination,
    PermitPlugin,
    Plugin,
    PluginObserver,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from cathedra.scheduler.framework.status import DEFECTS, Code, Status, defect_status, error
from cathedra.scheduler.podplugins import ProfilePlugins, all_of
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot

P = TypeVar("P", bound=Plugin)
R = TypeVar("R")
Args = TypeVarTuple("Args")

_LOG = logging.getLogger(__name__)
_SKIP: Final = Code.SKIP
_NONE: Final[Set[NodeInfo]] = frozenset()
_UNREFUSED: Final[Mapping[NodeInfo, Status]] = {}


class Scope(msgspec.Struct, frozen=True):
    """Result of PreFilter: all nodes (``nodes`` is None), or only some, and the plugins that excluded the others."""

    nodes: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()


ALL_NODES: Final = Scope()


FilterCall = tuple[FilterPlugin, Evaluations, Set[NodeInfo], Mapping[NodeInfo, Status]]
"""A filter plugin, the counter of the nodes that it has judged, and the nodes for which it need not be called: those
that pass, and those that it refuses."""


class Profile:
    """An ordered set of plugins under one scheduler name."""

    def __init__(
        self,
        plugins: Iterable[Plugin],
        name: str = "default-scheduler",
        enablement: Enablement | None = None,
        observer: PluginObserver | None = None,
    ) -> None:
        """``enablement`` has the plugins of each extension point and their weights. Without it all take part wherever
        they can, in the order in which they are given."""
        self.name = name
        self._observer = observer
        self._now: Callable[[], float] = observer.monotonic if observer is not None else _unmeasured
        """Returns the beginning of a measurement."""
        self._ran: Callable[[str, str, str, float], None] = observer.ran if observer is not None else _unreported
        """Reports the name of a plugin, the extension point, the outcome and the duration."""
        samples: Callable[[str], Iterator[bool]] = observer.samples if observer is not None else _unsampled
        self._sampled_entries, self._sampled_cycles = samples("entry"), samples("cycle")
        self._sampled_permits = samples("permit")
        self.plugins = tuple(plugins)
        self._enablement = enablement
        self.registrations: Mapping[str, Sequence[EventRegistration]] = {p.name: p.events() for p in self.plugins}
        self._pre_enqueue = self._at("preEnqueue", (p for p in self.plugins if isinstance(p, PreEnqueuePlugin)))
        self._pre_filter = self._at("preFilter", (p for p in self.plugins if isinstance(p, PreFilterPlugin)))
        # This runs for every pod: plugins are not called for what their base class answers.
        self._pre_filters = [
            (plugin.name, plugin.skips if type(plugin).skips is not PreFilterPlugin.skips else None, plugin)
            for plugin in self._pre_filter
        ]
        self._filter = self._at("filter", (p for p in self.plugins if isinstance(p, FilterPlugin)))
        self._refusing_all = [one for one in self._filter if type(one).refuses_all is not FilterPlugin.refuses_all]
        self._post_filter = self._at("postFilter", (p for p in self.plugins if isinstance(p, PostFilterPlugin)))
        self._score = self._at("score", (p for p in self.plugins if isinstance(p, ScorePlugin)))
        self._zero_where = all_of([one.zero_where for one in self._score if one.zero_where is not None])
        self._weights = {plugin.name: self._weight(plugin) for plugin in self._score}
        self._searching = ProfilePlugins(self._filter, self._score, self._weights)
        names = [plugin.name for plugin in self._pre_filter]
        self._pre_filtered_by = [self._evaluations("PreFilter", *names[:asked]) for asked in range(len(names) + 1)]
        """Number of PreFilter plugins → how often exactly the first ones of that number have seen a pod."""
        self._counted_filters = [
            (plugin.name, plugin, self._evaluations("Filter", plugin.name)) for plugin in self._filter
        ]
        self._scored = self._evaluations("Score", *[plugin.name for plugin in self._score])
        self._reserve = self._at("reserve", (p for p in self.plugins if isinstance(p, ReservePlugin)))
        self._permit = self._at("permit", (p for p in self.plugins if isinstance(p, PermitPlugin)))
        self._pre_bind = self._at("preBind", (p for p in self.plugins if isinstance(p, PreBindPlugin)))
        self._settling = [one for one in self._pre_bind if type(one).has_to_settle is not PreBindPlugin.has_to_settle]
        self._bind = self._at("bind", (p for p in self.plugins if isinstance(p, BindPlugin)))
        self._post_bind = self._at("postBind", (p for p in self.plugins if isinstance(p, PostBindPlugin)))

    def _at(self, point: str, plugins: Iterable[P]) -> tuple[P, ...]:
        """Return those of ``plugins`` that take part at an extension point, in its order."""
        able = tuple(plugins)
        if self._enablement is None:
            return able
        order = self._enablement.points[point]
        # The order decides which refusal is reported, and so which events wake the pod again.
        listed = sorted((plugin for plugin in able if plugin.name in order), key=lambda p: order.index(p.name))
        # A plugin may do at a point what kube-scheduler's does elsewhere: that follows its other points.
        return (*listed, *(plugin for plugin in able if plugin.name not in POINTS[point]))

    def _weight(self, plugin: ScorePlugin) -> int:
        return plugin.weight if self._enablement is None else self._enablement.weights.get(plugin.name, plugin.weight)

    def _evaluations(self, point: str, *plugins: str) -> Evaluations:
        """Return the counter of evaluations by plugins at an extension point."""
        observer = self._observer
        return observer.evaluations(plugins, point, self.name) if observer is not None else Evaluations()

    def _measured(self, plugin: Plugin, point: str, call: Callable[[*Args], R], *args: *Args) -> R:
        """Call a plugin, and report the duration to the observer."""
        began = self._now()
        answer = call(*args)
        self._ran(plugin.name, point, "Success" if answer is None else _outcome(answer), self._now() - began)
        return answer

    async def _awaited(self, plugin: Plugin, point: str, call: Awaitable[R]) -> R:
        """Do the same as `_measured` for a call that is awaited, of a plugin that talks to the API."""
        began = self._now()
        answer = await call
        self._ran(plugin.name, point, "Success" if answer is None else _outcome(answer), self._now() - began)
        return answer

    def _ran_together(self, plugins: Collection[Plugin], point: str, began: float) -> None:
        """Divide the time of a common computation equally among its plugins."""
        seconds = (self._now() - began) / len(plugins)
        for plugin in plugins:
            self._ran(plugin.name, point, "Success", seconds)

    def statistics(self) -> dict[str, int]:
        """Return numbers of the plugins' state."""
        return {name: number for plugin in self.plugins for name, number in plugin.statistics().items()}

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Return the first refusal to let the pod into the active queue, or the first error; None lets it in."""
        measured = next(self._sampled_entries)
        for plugin in self._pre_enqueue:
            try:
                if measured:
                    status = self._measured(plugin, "PreEnqueue", plugin.pre_enqueue, pod)
                else:
                    status = plugin.pre_enqueue(pod)
            # A defect in one plugin refuses this pod. Raised, it would end the scheduling of all pods.
            except DEFECTS as defect:
                status = defect_status(defect, _LOG, "%s: PreEnqueue plugin %s broke", pod.key, plugin.name)
            if status is not None:
                return status.of(plugin.name)
        return None

    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, ignored: Container[str] = ()
    ) -> Status | Scope:
        """Return the nodes that can be meant at all, or the refusal that ends the cycle.

        Refusals by plugins that are ``ignored`` end nothing; their filters take no part.
        """
        state.measured = next(self._sampled_cycles)
        nodes: frozenset[str] | None = None
        narrowed_by: list[str] = []
        refusal: Status | None = None
        skipped, measured = state.skipped_filters, state.measured
        asked = 0
        for asked, (name, skips, plugin) in enumerate(self._pre_filters, start=1):  # noqa: B007  # read below the loop
            # Plugins that are known to skip are called as well if they are measured.
            if skips is not None and not measured and skips(pod):
                skipped.add(name)
                continue
            if measured:
                answer = self._measured(plugin, "PreFilter", plugin.pre_filter, state, pod, snapshot)
            else:
                answer = plugin.pre_filter(state, pod, snapshot)
            if answer is None:
                continue
            if isinstance(answer, Narrowed):
                narrowed_by.append(name)
                # Each plugin only narrows: a node must be among those of all of them.
                nodes = answer.nodes if nodes is None else nodes & answer.nodes
                if not nodes:
                    refusal = _nothing_left(narrowed_by).of(name)
                    break
            elif answer.code is _SKIP or name in ignored:
                skipped.add(name)
            elif answer.rejected:
                refusal = answer.of(name)
                break
            else:
                refusal = error(f'running PreFilter plugin "{name}": {answer.message}').of(name)
                break
        self._pre_filtered_by[asked].times += 1
        if refusal is not None:
            return refusal
        return ALL_NODES if nodes is None else Scope(nodes, tuple(narrowed_by))

    def filters(self, state: CycleState) -> Sequence[FilterCall]:
        """Return the filters that take part in this cycle."""
        skipped = state.skipped_filters
        return [
            (plugin, counter, _NONE, _UNREFUSED)
            for name, plugin, counter in self._counted_filters
            if name not in skipped
        ]

    def refuses_all(self, state: CycleState, pod: PodInfo) -> bool:
        """Return True if it is known without a computation that some filter refuses every node of the snapshot."""
        for plugin in self._refusing_all:  # a generator costs more than the one plugin's look-up
            if plugin.name not in state.skipped_filters and plugin.refuses_all(state, pod):
                return True
        return False

    def batch_filters(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[FilterCall]:
        """Return the filters, each with the results that it can compute for ``nodes`` of the snapshot at once."""
        skipped = state.skipped_filters
        began = self._now() if state.measured else 0.0
        predicates = state.predicates
        if predicates is None:
            predicates = state.predicates = self._searching.predicates(pod)
        of_plugins, common = predicates
        passing = _meeting(common, state.snapshot, nodes)
        if passing is not None and state.measured:
            self._ran_together(of_plugins, "Filter", began)
        # If the common predicate holds for all these nodes, none of its plugins can refuse one.
        met = {} if passing is None else of_plugins
        calls: list[FilterCall] = []
        for name, plugin, counter in self._counted_filters:
            if name in skipped:
                continue
            if plugin in met:
                calls.append((plugin, counter, passing or _NONE, _UNREFUSED))
                continue
            if state.measured:
                batch = self._measured(plugin, "Filter", plugin.filter_batch, state, pod, nodes)
            else:
                batch = plugin.filter_batch(state, pod, nodes)
            calls.append((plugin, counter, batch.passing, batch.refused))
        return calls

    def count_batch(self, filters: Sequence[FilterCall], nodes: int) -> None:
        """Count ``nodes`` evaluations of each of ``filters``, whose results were computed in a batch."""
        for _, evaluations, _, _ in filters:
            evaluations.times += nodes

    def filter(self, filters: Sequence[FilterCall], state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return the first refusal of ``node``; an error gets kube-scheduler's words."""
        for plugin, evaluations, passing, refused in filters:
            evaluations.times += 1
            # Tested before the refusals: nearly every node is in the set.
            if node in passing:
                continue
            status = refused.get(node)
            if status is None and state.measured:
                status = self._measured(plugin, "Filter", plugin.filter, state, pod, node)
            elif status is None:
                status = plugin.filter(state, pod, node)
            if status is None:
                continue
            if status.rejected:
                return status.of(plugin.name)
            return error(f'running "{plugin.name}" filter plugin: {status.message}').of(plugin.name)
        return None

    async def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, without: Container[str] = ()
    ) -> tuple[str, Nomination | None]:
        """Call PostFilter plugins and return their messages, and the node that is being cleared. Plugins ``without``
        are left out."""
        messages: list[str] = []
        withdrawn: Nomination | None = None
        for plugin in self._post_filter:
            if plugin.name in without:
                continue
            answer = await self._awaited(plugin, "PostFilter", plugin.post_filter(state, pod, diagnosis))
            if isinstance(answer, Nomination):
                # The first plugin that finds a node ends the search. Evicting pods for two plugins would clear two
                # nodes.
                if answer.node:
                    return "", answer
                withdrawn = answer
                messages.append(answer.message)
                continue
            if answer.code is Code.ERROR:
                # An error of PostFilter does not replace the diagnosis: the pod was refused before.
                _LOG.error("%s: PostFilter plugin %s: %s", pod.key, plugin.name, answer.message)
                return answer.message, None
            if answer.message:
                messages.append(answer.message)
        return ", ".join(messages), withdrawn

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> tuple[list[int], int | None]:
        """Return the weighted total of every node, and a bound that none exceeds, if one is known."""
        began = self._now() if state.measured else 0.0
        (parts, total, called), snapshot, zero = self._searching.scores(pod), state.snapshot, self._zero_where
        totals: list[int] | None = None
        bound: int | None = None
        if total is not None:
            totals, bound = snapshot.totals_of(total.of, total.given, nodes)
            if state.measured:
                self._ran_together(parts, "Score", began)
        # If every node scores zero for a plugin, adding the zeros changes no order, and the plugin need not be called.
        all_zero = zero is not None and snapshot.all_are(zero.of, zero.given, nodes)
        for plugin in called:
            if all_zero and plugin.zero_where is not None:
                continue
            if state.measured:
                scores = self._measured(plugin, "Score", plugin.score, state, pod, nodes)
            else:
                scores = plugin.score(state, pod, nodes)
            if scores is not None:
                bound = None
                weight = self._weights[plugin.name]
                totals = (
                    [weight * score for score in scores]
                    if totals is None
                    else [known + weight * score for known, score in zip(totals, scores, strict=True)]
                )
        self._scored.times += len(nodes)
        return ([0] * len(nodes), 0) if totals is None else (totals, bound)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Have everything that the pod needs on ``node`` held in memory."""
        for plugin in self._reserve:
            if state.measured:
                status = self._measured(plugin, "Reserve", plugin.reserve, state, pod, node)
            else:
                status = plugin.reserve(state, pod, node)
            if status is None:
                continue
            if status.rejected:
                return status.of(plugin.name)
            return error(f'running Reserve plugin "{plugin.name}": {status.message}').of(plugin.name)
        return None

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Call Unreserve in reverse order; a plugin that raises does not keep the others from it."""
        # In reverse order: a plugin may rely on what plugins before it have reserved.
        for plugin in reversed(self._reserve):
            try:
                await self._awaited(plugin, "Unreserve", plugin.unreserve(state, pod, node))
            except DEFECTS as defect:
                defect_status(defect, _LOG, "%s: Unreserve plugin %s broke", pod.key, plugin.name)

    def permit(self, pod: PodInfo) -> Status | None:
        """Return a status while the group of ``pod``, which could have its node, cannot be bound yet."""
        waits: list[str] = []
        measured = next(self._sampled_permits)
        for plugin in self._permit:
            status = self._measured(plugin, "Permit", plugin.permit, pod) if measured else plugin.permit(pod)
            if status is None:
                continue
            if status.code is not Code.WAIT:
                return error(f'running Permit plugin "{plugin.name}": {status.message}').of(plugin.name)
            waits += status.reasons
        if not waits:
            return None
        return Status(Code.WAIT, (*waits, "one or more plugins asked to wait and no plugin rejected pod"))

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Return True if some plugin has work before the pod is bound."""
        has_work = False
        # Every plugin is called, as in kube-scheduler.
        for plugin in self._pre_bind:
            has_work = plugin.pre_bind_pre_flight(state, pod, node) or has_work
        return has_work

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Write what must stand in the API before the binding."""
        for plugin in self._pre_bind:
            write = plugin.pre_bind(state, pod, node)
            status = await (self._awaited(plugin, "PreBind", write) if state.measured else write)
            if status is None:
                continue
            if status.rejected:
                return status.of(plugin.name)
            return error(f'running PreBind plugin "{plugin.name}": {status.message}').of(plugin.name)
        return None

    def has_to_settle(self, state: CycleState, pod: PodInfo) -> bool:
        """Return True if others must do something before the pod can be bound."""
        for plugin in self._settling:  # noqa: SIM110  # a generator costs more than the one plugin's answer
            if plugin.has_to_settle(state, pod):
                return True
        return False

    async def settle(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Wait for what others must do before the pod can be bound."""
        for plugin in self._settling:
            status = await plugin.settle(state, pod, node) if plugin.has_to_settle(state, pod) else None
            if status is not None:
                return error(f'running PreBind plugin "{plugin.name}": {status.message}').of(plugin.name)
        return None

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Bind the pod; the first binder that does not skip decides."""
        for plugin in self._bind:
            write = plugin.bind(state, pod, node)
            status = await (self._awaited(plugin, "Bind", write) if state.measured else write)
            if status is None:
                return None
            if status.code is not Code.SKIP:
                return error(f'running Bind plugin "{plugin.name}": {status.message}').of(plugin.name)
        return error("no bind plugin took the pod")

    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Notify plugins that the pod is bound; an exception changes nothing."""
        for plugin in self._post_bind:
            try:
                await plugin.post_bind(state, pod, node)
            except DEFECTS as defect:
                defect_status(defect, _LOG, "%s: PostBind plugin %s broke", pod.key, plugin.name)


def _unmeasured() -> float:
    return 0.0


def _unsampled(work: str) -> Iterator[bool]:
    return repeat(False)


def _unreported(plugin: str, point: str, outcome: str, seconds: float) -> None:
    """Report nothing: there is no observer."""


def _outcome(answer: object) -> str:
    return answer.code._value_ if isinstance(answer, Status) else "Success"


def _meeting(predicate: NodePredicate | None, snapshot: Snapshot, nodes: Sequence[NodeInfo]) -> Set[NodeInfo] | None:
    """Nodes that meet the predicate, among them all of ``nodes``; None if one of these does not."""
    if predicate is None:
        return None
    if predicate.there is not None and predicate.lacking.isdisjoint(snapshot.resources()):
        # The cluster has none of the resources that the full predicate tests, so the shorter one gives equal results.
        predicate = predicate.there
    meeting = snapshot.nodes_that(predicate.of, predicate.given, nodes)
    return meeting if len(meeting) == len(snapshot.nodes) or meeting.issuperset(nodes) else None


def _nothing_left(plugins: Sequence[str]) -> Status:
    names = f"[{' '.join(sorted(plugins))}]"
    simultaneously = " simultaneously" if len(plugins) > 1 else ""
    reason = f"node(s) didn't satisfy plugin(s) {names}{simultaneously}"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))
