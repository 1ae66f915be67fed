"""The allocator: claims and a node go in; allocation results, or a refusal, come out.

What can be done once per pod is done in `Allocator.prepare`; what is left for a node is small, and nodes that look
alike share one answer.
"""

from __future__ import annotations

import random as random_module
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import structs

from cathedra.allocation.answers import Allocation, Answers, FittingNodes, NodeClass, SharedAnswer
from cathedra.allocation.checks.selectors import Interrupted, SelectorCache, SelectorList
from cathedra.allocation.claims.problem import (
    Problem,
    Solution,
    expand,
)
from cathedra.allocation.claims.requests import ClaimPlan, ClassLookup, plan_claims
from cathedra.allocation.claims.result import write_results
from cathedra.allocation.claims.tables import SPEC_CACHE, PreparedSpecs, bases
from cathedra.allocation.equivalence import NodeEquivalence, search_key
from cathedra.allocation.errors import Aborted, AllocationError, FatalError, NodeError
from cathedra.allocation.features import Features
from cathedra.allocation.reasons import explain
from cathedra.allocation.refusal import Refusal, RefusalExplanation
from cathedra.allocation.search.budget import Budget, BudgetExceeded, LongSearch, Meter, SearchAllowance
from cathedra.allocation.search.exhaustive import ExhaustiveSearch
from cathedra.allocation.search.fast import FastSearch, greedy
from cathedra.allocation.supply.caches import CacheSlot
from cathedra.allocation.supply.inventory import InventorySnapshot
from cathedra.allocation.supply.ledger import Ledger, LedgerSnapshot, PoolState
from cathedra.allocation.supply.pools import NodeSupply, NodeSupplyCache, PoolSupply
from cathedra.api.core import core_v1
from cathedra.api.resource import AllocationResult, DeviceClass, ResourceClaim
from cathedra.deadline import Interruption, TimeSliceOver

__all__ = ["Allocation", "Allocator", "PreparedRequests"]


class Allocator:
    """Allocator for one moment of the cluster: its inventory and ledger do not change.

    It is cheap to make, and between calls it keeps nothing but caches, so nodes can be tried in any order.

    ``classes`` looks up a DeviceClass by name; ``random`` generates share IDs.
    """

    def __init__(
        self,
        features: Features,
        classes: ClassLookup | Mapping[str, DeviceClass],
        inventory: InventorySnapshot,
        ledger: LedgerSnapshot,
        *,
        budget: Budget | None = None,
        random: random_module.Random | None = None,
    ) -> None:
        self.features = features
        self.classes: ClassLookup = classes if callable(classes) else classes.get
        self.inventory = inventory
        self.ledger = ledger
        self.budget = budget or Budget()
        self._random = random or random_module.SystemRandom()

    def prepare(
        self,
        claims: Sequence[ResourceClaim],
        allowance: SearchAllowance | Callable[[], SearchAllowance] | None = None,
    ) -> PreparedRequests:
        """Prepare ``claims`` for all nodes: look up classes, compile selectors, validate.

        Problems of the claims are raised by `PreparedRequests.on`, where Kubernetes would report them. ``allowance``
        limits this and all searches on nodes. If it is a function, it is called when the first search is made; without
        an allowance the budget begins then.

        Raises:
            LongSearch: the turn of the allowance is over; also from all methods of `PreparedRequests` that search.
            Aborted: time is up.
        """
        inventory = self.inventory
        allowance = allowance or self.budget.begin
        # Claims of one template share one spec object, so everything about their requests is prepared once for
        # thousands of pods.
        known = inventory.caches.of(SPEC_CACHE)
        specs = known.get(claims, self.classes, self.features, inventory.interner)
        if specs is None:
            allowance = allowance if isinstance(allowance, SearchAllowance) else allowance()
            plans = self._planned(claims, allowance)
            specs = known.add(plans, self.features, inventory.interner)
        return PreparedRequests(self, claims, specs, allowance)

    def plans_of(
        self, claims: Sequence[ResourceClaim], interrupted: Interrupted | None = None
    ) -> tuple[ClaimPlan, ...]:
        """``claims`` taken apart, in their own names. An exception that ``interrupted`` raises ends compilation."""
        return plan_claims(claims, self.classes, self.inventory.caches.of(_SELECTORS), self.features, interrupted)

    def _planned(self, claims: Sequence[ResourceClaim], allowance: SearchAllowance) -> tuple[ClaimPlan, ...]:
        try:
            return self.plans_of(claims, allowance.look)
        except BudgetExceeded as stop:
            raise Aborted("time is up before all selectors are compiled") from stop
        except TimeSliceOver:
            raise LongSearch(partial(self._plan_apart, claims), allowance.seconds) from None

    def _plan_apart(self, claims: Sequence[ResourceClaim], interrupted: Interruption) -> None:
        """Compile the selectors in a thread, and enter them in the loop's cache at once."""
        # A cache of its own, merged at the end: the event loop may use the shared one meanwhile.
        apart = SelectorCache()
        allowance = SearchAllowance(self.budget, interrupted)
        with suppress(BudgetExceeded):
            plan_claims(claims, self.classes, apart, self.features, allowance.look)
        self.inventory.caches.of(_SELECTORS).take(apart)

    def selectors_of(self, device_class: DeviceClass) -> SelectorList:
        """Return the selectors of a device class."""
        texts = [
            selector.cel.expression if selector.cel is not None else "" for selector in device_class.spec.selectors
        ]
        return self.inventory.caches.of(_SELECTORS).of(texts, self.features)

    def allocate(self, node: core_v1.Node, claims: Sequence[ResourceClaim]) -> Allocation | Refusal:
        """Allocate ``claims`` together on ``node``, all or none.

        Raises:
            NodeError: the node is out; others should be tried.
            FatalError: the claims cannot be allocated at all until something changes.
        """
        return self.prepare(claims).on(node)

    def new_share_id(self) -> str:
        """Return a random UUID (version 4)."""
        # Version and variant bits of a UUID 4, set without the uuid module, which would use the system's random
        # numbers.
        bits = self._random.getrandbits(128) & ~(0xF000 << 64 | 0xC000 << 48) | 0x4000 << 64 | 0x8000 << 48
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class PreparedRequests:
    """The claims of a pod, prepared for allocation on any node.

    Nodes whose pools have the same shape and the same devices taken have the same result; it is computed once.
    """

    def __init__(
        self,
        allocator: Allocator,
        claims: Sequence[ResourceClaim],
        specs: PreparedSpecs,
        allowance: SearchAllowance | Callable[[], SearchAllowance],
    ) -> None:
        self.allocator = allocator
        self._allowance = allowance
        self._claims = tuple(claims)
        self._specs = specs
        self._tables = specs.tables
        self._plans: tuple[ClaimPlan, ...] | None = None
        self._equivalence = NodeEquivalence.of(allocator.inventory, allocator.features, self._tables.projection)
        self._known = self._equivalence.answers(specs.key)
        self._answers = self._known.shared

    @property
    def allowance(self) -> SearchAllowance:
        """The limit of all searches; it begins when it is first read."""
        if not isinstance(self._allowance, SearchAllowance):
            self._allowance = self._allowance()
        return self._allowance

    @property
    def plans(self) -> tuple[ClaimPlan, ...]:
        """The claims taken apart, in their own names: searches and explanations need them, known answers do not."""
        # Plans in the names of these claims are needed for the texts of errors only; a cached answer never needs them.
        if self._plans is None:
            specs = self._specs.plans
            same = all(plan.claim is claim for plan, claim in zip(specs, self._claims, strict=True))
            self._plans = specs if same else self.allocator.plans_of(self._claims, self.allowance.look)
        return self._plans

    @property
    def _supplies(self) -> NodeSupplyCache:
        return NodeSupplyCache(self.allocator.inventory, self.allocator.features)

    def on(self, node: core_v1.Node) -> Allocation | Refusal:
        """Return the allocation or the refusal of ``node``.

        Raises:
            NodeError: the node is out; others should be tried.
            FatalError: the claims cannot be allocated at all until something changes.
        """
        supply = self._supplies.of(node)
        return self._on(node, supply, self._equivalence.class_of(node, supply, self.allocator.ledger))

    def pools_on(self, node: core_v1.Node) -> tuple[Sequence[PoolSupply], Sequence[PoolState]]:
        """Return the usable pools of ``node``, and their states."""
        supply, features = self._supplies.of(node), self.allocator.features
        return supply.usable, supply.states(self.allocator.ledger, shares=features.consumable_capacity)

    def on_without(self, node: core_v1.Node, withheld: Sequence[int]) -> Allocation | None:
        """Return the allocation on ``node`` without some devices, a mask for each of `pools_on`; None if there is none,
        or the search takes too long. Nothing is counted as in use for them.

        Raises:
            AllocationError: the claims cannot be allocated at all.
        """
        supply = self._supplies.of(node)
        _, states = self.pools_on(node)
        left = tuple([state.without(mask) for state, mask in zip(states, withheld, strict=True)])
        meter = Meter(self.allowance)
        problem = Problem(self.plans, node, supply, left, self.allocator.features, meter.look)
        try:
            expand(problem)
            solution = self._search(problem, meter)
        except BudgetExceeded:
            return None
        name = node.metadata.name
        return None if solution is None else Allocation(name, self._results(SharedAnswer(solution), supply, name))

    def _on(self, node: core_v1.Node, supply: NodeSupply, node_class: NodeClass) -> Allocation | Refusal:
        """Return the result of ``node``, whose supply is ``supply``."""
        answer = self._answers.get(node_class)
        # The text of a node's error names the node, so it cannot come from the cache.
        if answer is None or answer.node_error or self._may_repeat(answer):
            answer = self._cached(node_class, self._solve(node, supply, node_class))
        if answer.solution is None:
            refusal = self._refusal(node, supply, answer)
            # An invalid pool matters only if the claims do not fit without it.
            if answer.stopped is None and supply.invalid:
                raise NodeError("invalid resource pools were encountered", refusal)
            return refusal
        name = node.metadata.name
        return Allocation(name, self._results(answer, supply, name))

    def _refusal(self, node: core_v1.Node, supply: NodeSupply, answer: SharedAnswer) -> Refusal:
        name = node.metadata.name
        return Refusal(name, lambda: self._explain(node, supply), answer.stopped, answer.seconds, self._undecided)

    def on_each(self, nodes: Sequence[core_v1.Node]) -> Answers:
        """Return the results of many nodes in their order; an error that concerns one node is returned in its place.

        Pass the same nodes again as long as they do not change: then only what has changed is computed.

        Raises:
            FatalError: the claims cannot be allocated at all until something changes.
        """
        answers = self.among(tuple(nodes))
        answers.fitting()
        return answers

    def among(self, nodes: tuple[core_v1.Node, ...]) -> Answers:
        """Return the results of many nodes lazily: each one is computed when it is read, and errors are raised then."""
        return _PreparedAnswers(self, nodes)

    def stop(self, node: core_v1.Node) -> str:
        """Return where the last search for ``node`` was stopped, in words; empty if it was completed or not made."""
        supply = self._supplies.of(node)
        answer = self._answers.get(self._equivalence.class_of(node, supply, self.allocator.ledger))
        if answer is None or answer.stopped is None:
            return ""
        return self._refusal(node, supply, answer).stop

    def reasons(self, node: core_v1.Node, *, trials: bool = True) -> RefusalExplanation:
        """Return the number of devices that are left for each request after each test on ``node``.

        The reasons are available even if the claims fit there or a selector fails. Without ``trials`` nothing is
        searched, and what only a search could find is None.

        Raises:
            FatalError: the claims themselves are faulty.
            NodeError: all devices are requested, and a pool cannot be used.
        """
        return self._explain(node, self._supplies.of(node), trials=trials)

    def _answer(self, node_class: NodeClass, nodes: Sequence[core_v1.Node]) -> SharedAnswer:
        """Return the result of all nodes of this class; compute it unless it is cached."""
        known = self._answers.get(node_class)
        if known is None or self._may_repeat(known):
            known = self._cached(node_class, self._search_class(node_class, nodes))
        return known

    def _cached(self, node_class: NodeClass, answer: SharedAnswer) -> SharedAnswer:
        """Keep an answer, unless it is that of a search that was stopped earlier than the last one."""
        known = self._answers.get(node_class)
        if answer.stopped is None or known is None or (known.stopped or 0) <= answer.stopped:
            self._answers[node_class] = answer
        return answer

    def _may_repeat(self, known: SharedAnswer) -> bool:
        """Return True if the search for ``known`` was stopped, and there is time to make it again."""
        return known.stopped is not None and not self.allowance.exhausted

    def _search_class(self, node_class: NodeClass, nodes: Sequence[core_v1.Node]) -> SharedAnswer:
        try:
            return self._solve(node_class.node, node_class.supply, node_class)
        except NodeError:
            return SharedAnswer(None, node_error=True)
        except FatalError:
            # Several may fail, and the text names a device: it must be one of the first node that fails.
            for node in nodes:
                with suppress(NodeError):
                    self.on(node)
            raise

    def _results(self, answer: SharedAnswer, supply: NodeSupply, name: str) -> tuple[AllocationResult, ...]:
        assert answer.solution is not None
        return write_results(
            self._claims, self._specs, answer.solution, supply.devices, name, self.allocator.new_share_id
        )

    def _solve(self, node: core_v1.Node, supply: NodeSupply, node_class: NodeClass) -> SharedAnswer:
        """Search for nodes of that class.

        Raises:
            LongSearch: the turn is over.
            NodeError, FatalError: as `on`.
        """
        failure = self.allowance.failures.get((self._specs.key, node_class))
        # The failure was found in the thread; raising it there would end the thread's task instead of this attempt.
        if failure is not None:
            raise failure.with_traceback(None)  # it serves all nodes of the class, and its traceback would grow
        try:
            return self._searched(node, supply, node_class, self.allowance)
        except TimeSliceOver:
            # The search in the thread begins anew: its state is spread over frames that belong to this call.
            raise LongSearch(partial(self._solve_apart, node, supply, node_class), self.allowance.seconds) from None

    def _solve_apart(
        self, node: core_v1.Node, supply: NodeSupply, node_class: NodeClass, interrupted: Interruption
    ) -> None:
        """Search in a thread, and cache the result or the error for the next call.

        Meanwhile the event loop searches for other pods. Data that both change is either private to one of them (the
        caches of the supply) or a memo of equal values, where a single assignment is the whole change.
        """
        try:
            # Searches write to the caches of the supply. Copies of them keep the thread from changing a dict that the
            # event loop is iterating.
            answer = self._searched(node, supply.apart(), node_class, self.allowance.in_thread(interrupted))
        except NodeError:
            answer = SharedAnswer(None, node_error=True)
        except FatalError as failure:
            self.allowance.failures[self._specs.key, node_class] = failure
            return
        self._answers[node_class] = answer

    def _searched(
        self, node: core_v1.Node, supply: NodeSupply, node_class: NodeClass, allowance: SearchAllowance
    ) -> SharedAnswer:
        meter = Meter(allowance)
        problem = Problem(self.plans, node, supply, node_class.states, self.allocator.features, meter.look)
        try:
            expand(problem)
            return SharedAnswer(self._search(problem, meter))
        except BudgetExceeded as stop:
            return SharedAnswer(None, stop.states, seconds=allowance.seconds if allowance.exhausted else 0.0)

    def _undecided(self) -> str:
        """Describe the requests and constraints that a stopped search has to satisfy."""
        requests = sum(len(plan.requests) for plan in self.plans)
        constraints = [str(constraint) for plan in self.plans for constraint in plan.constraints]
        counted = Counter(constraints)
        rules = ", ".join(f"{number} × {text}" if number > 1 else text for text, number in counted.items())
        return f"{requests} request{'s' if requests != 1 else ''}" + (f" with {rules}" if rules else "")

    def _search(self, problem: Problem, meter: Meter) -> Solution | None:
        meter.step()
        behaviour = problem.features.behaviour
        if not behaviour.releases_everything or behaviour.unknown_value_may_come_first:
            # The faults of older releases show in the walk alone.
            return ExhaustiveSearch(problem, meter).run()
        if any(map(problem.draws, problem.devices)):
            return ExhaustiveSearch(problem, meter).run()
        found = bases(self._tables, problem)
        decided, solution = greedy(problem, found)
        if decided:
            return solution
        solutions = self._known.solutions
        key = search_key(problem, found) if solutions else None
        if key is not None and key in solutions:
            return solutions[key]
        solution = FastSearch(problem, found, meter).run()
        if meter.states > _LONG:
            self._remember(key or search_key(problem, found), solution)
        return solution

    def _remember(self, key: Hashable | None, solution: Solution | None) -> None:
        """Cache the solution of a long search for nodes with an equal search key; the key costs more than a short
        search."""
        solutions = self._known.solutions
        if key is None:
            return
        if len(solutions) >= _SOLUTIONS:
            solutions.clear()
        solutions[key] = solution

    def _explain(self, node: core_v1.Node, supply: NodeSupply, *, trials: bool = True) -> RefusalExplanation:
        allocator = self.allocator
        states = supply.states(allocator.ledger, shares=allocator.features.consumable_capacity)
        # Not the allowance of the search: a refusal may be explained long after it. Where that was used up, the counts
        # of devices are worth a moment, and further searches are not made.
        budget = allocator.budget
        if self.allowance.exhausted:
            budget = structs.replace(budget, seconds=min(budget.seconds, _MOMENT))
        allowance = budget.begin()
        problem = Problem(self.plans, node, supply, states, allocator.features, allowance.look)
        freed = Allocator(allocator.features, allocator.classes, allocator.inventory, Ledger().snapshot())

        def trial(claims: Sequence[ResourceClaim], *, all_free: bool = False) -> bool | None:
            if not trials or self.allowance.exhausted:
                return None
            try:
                of = freed if all_free else allocator
                answer = of.prepare(claims, partial(allowance.with_states, _TRIAL)).on(node)
            except Aborted:
                raise
            except AllocationError:
                return False
            return isinstance(answer, Allocation) or (None if answer.stopped else False)

        try:
            expand(problem)
            return explain(problem, allocator.ledger, trial)
        except BudgetExceeded as stop:
            raise Aborted("time is up before the reasons of the refusal are known") from stop


class _PreparedAnswers(Answers):
    """Results of many nodes at the moment of the requests' allocator."""

    __slots__ = ("_equivalence", "_moment", "_prepared")

    def __init__(self, prepared: PreparedRequests, nodes: tuple[core_v1.Node, ...]) -> None:
        super().__init__(nodes)
        self._prepared, equivalence = prepared, prepared._equivalence
        self._equivalence = equivalence
        self._moment = equivalence.follow(nodes, prepared.allocator.inventory, prepared.allocator.ledger)

    def _classes_of(self, places: Sequence[int]) -> Sequence[NodeClass]:
        equivalence = self._equivalence
        if equivalence.moment == self._moment:
            return (equivalence.class_at(places[0]),) if len(places) == 1 else equivalence.classes(places)
        supplies, ledger = self._prepared._supplies, self._prepared.allocator.ledger
        nodes = [self._nodes[place] for place in places]
        return [equivalence.class_of(node, supplies.of(node), ledger) for node in nodes]

    def _fitting_now(self) -> FittingNodes | None:
        equivalence = self._equivalence
        return equivalence.fitting(self._prepared._known) if equivalence.moment == self._moment else None

    def _solve(self, node_class: NodeClass) -> SharedAnswer:
        return self._prepared._answer(node_class, self._nodes)

    def _write(self, place: int) -> Allocation | Refusal:
        node, equivalence = self._nodes[place], self._equivalence
        if equivalence.moment != self._moment:
            return self._prepared.on(node)
        node_class = equivalence.class_at(place)
        return self._prepared._on(node, equivalence.supply_at(place), node_class)


_SELECTORS: Final[CacheSlot[SelectorCache]] = CacheSlot("selectors", SelectorCache)
_MOMENT: Final = 1.0
_LONG: Final = 64
"""Number of search states from which a solution is cached for other nodes with the same search key."""
_SOLUTIONS: Final = 1_024
"""Largest number of cached solutions for the claims of one request key."""
_TRIAL: Final = 20_000
"""States of a search that is made for an explanation only."""
