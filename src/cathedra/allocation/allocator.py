"""The allocator: claims and a node go in; allocation results, or a refusal, come out.

What can be done once per pod is done in `Allocator.prepare`; what is left for a node is small, and nodes that look
alike share one answer.
"""

from __future__ import annotations

import random as random_module
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cathedra.allocation.checks.selectors import Questions
from cathedra.allocation.errors import NodeError
from cathedra.allocation.features import Features
from cathedra.allocation.reasons import RequestReason, explain
from cathedra.allocation.refusal import Refusal
from cathedra.allocation.search.budget import Budget, BudgetExceeded, Meter
from cathedra.allocation.search.fast import FastSearch
from cathedra.allocation.search.plain import PlainSearch
from cathedra.allocation.search.problem import (
    Problem,
    RequestOnNode,
    Solution,
    declares_optional_operations,
    expand,
)
from cathedra.allocation.search.requests import ClaimPlan, ClassLookup, plan_claims
from cathedra.allocation.search.result import write_results
from cathedra.allocation.search.rules import Rule
from cathedra.allocation.search.tables import Tables, bases
from cathedra.allocation.supply.inventory import InventorySnapshot
from cathedra.allocation.supply.ledger import LedgerSnapshot
from cathedra.allocation.supply.pools import NodeView, node_view
from cathedra.api.core import core_v1
from cathedra.api.resource import AllocationResult, DeviceClass, ResourceClaim

__all__ = ["Allocation", "Allocator", "PreparedRequests"]


@dataclass(frozen=True, slots=True)
class Allocation:
    """The claims fit: one result per claim, in their order, ready for ``claim.status.allocation``."""

    node: str
    results: tuple[AllocationResult, ...]


class Allocator:
    """Answers for one moment of the cluster: an inventory and a ledger that do not change.

    Cheap to make. Nothing is remembered between calls but memos, so that it can be asked for many nodes in any order.

    ``classes`` finds a DeviceClass by name; ``random`` makes share IDs.
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
        self.classes: ClassLookup = classes.get if isinstance(classes, Mapping) else classes
        self.inventory = inventory
        self.ledger = ledger
        self.budget = budget or Budget()
        self._random = random or random_module.SystemRandom()

    def prepare(self, claims: Sequence[ResourceClaim]) -> PreparedRequests:
        """Do for ``claims`` what is the same on every node: look up classes, compile selectors, validate.

        Problems of the claims are raised by `PreparedRequests.on`, where Kubernetes would report them.
        """
        questions: Questions = self.inventory.memo.setdefault("questions", Questions())
        return PreparedRequests(self, plan_claims(claims, self.classes, questions, self.features))

    def allocate(self, node: core_v1.Node, claims: Sequence[ResourceClaim]) -> Allocation | Refusal:
        """Allocate ``claims`` together on ``node``, all or none.

        Raises:
            NodeError: the node is out; others should be tried.
            FatalError: the claims cannot be allocated at all until something changes.
        """
        return self.prepare(claims).on(node)

    def new_share_id(self) -> str:
        """A random UUID."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """What all nodes that look alike answer; devices are given by position."""

    requests: list[list[RequestOnNode]]
    solution: Solution | None
    stopped: int | None = None


class PreparedRequests:
    """The claims of a pod, ready to be put to nodes.

    Nodes whose pools have the same shape and the same devices taken get the same answer; it is worked out once.
    """

    def __init__(self, allocator: Allocator, plans: tuple[ClaimPlan, ...]) -> None:
        self.allocator = allocator
        self.plans = plans
        self._tables = Tables(plans, allocator.features)
        self._walk = self._tables.walk_decides or not allocator.features.behaviour.releases_everything
        self._answers: dict[Any, _Answer] = {}

    def on(self, node: core_v1.Node) -> Allocation | Refusal:
        """The answer of ``node``.

        Raises:
            NodeError: the node is out; others should be tried.
            FatalError: the claims cannot be allocated at all until something changes.
        """
        allocator = self.allocator
        view = node_view(allocator.inventory, node, allocator.features)
        states = view.states(allocator.ledger, shares=allocator.features.consumable_capacity)
        operations = allocator.features.optional_node_operations and declares_optional_operations(node)
        key = (view.shape, operations, tuple([state.key for state in states]))
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._solve(Problem(self.plans, node, view, states, allocator.features))
        name = node.metadata.name
        if answer.solution is None:
            if answer.stopped is None and view.invalid:
                raise NodeError("invalid resource pools were encountered")
            return Refusal(name, lambda: self._explain(node, view), answer.stopped)
        results = write_results(
            self.plans, answer.requests, answer.solution, view.devices, name, allocator.features, allocator.new_share_id
        )
        return Allocation(name, results)

    def on_each(self, nodes: Iterable[core_v1.Node]) -> list[Allocation | Refusal | NodeError]:
        """The answers of many nodes, in their order; an error that concerns one node takes its place.

        Raises:
            FatalError: the claims cannot be allocated at all until something changes.
        """
        answers: list[Allocation | Refusal | NodeError] = []
        for node in nodes:
            try:
                answers.append(self.on(node))
            except NodeError as error:
                answers.append(error)
        return answers

    def _solve(self, problem: Problem) -> _Answer:
        expand(problem)
        meter = Meter(self.allocator.budget)
        with _deep_enough(problem):
            try:
                return _Answer(problem.requests, self._search(problem, meter))
            except BudgetExceeded as stop:
                return _Answer(problem.requests, None, stop.states)

    def _search(self, problem: Problem, meter: Meter) -> Solution | None:
        found = None if self._walk else bases(self._tables, problem)
        if found is None:
            return PlainSearch(problem, meter).run()
        rules = [
            [Rule(constraint, problem.devices, problem.features) for constraint in plan.constraints]
            for plan in self.plans
        ]
        if any(rule.mixed for of_claim in rules for rule in of_claim):
            return PlainSearch(problem, meter).run()
        return FastSearch(problem, *found, rules, meter).run()

    def _explain(self, node: core_v1.Node, view: NodeView) -> tuple[RequestReason, ...]:
        allocator = self.allocator
        states = view.states(allocator.ledger, shares=allocator.features.consumable_capacity)
        problem = Problem(self.plans, node, view, states, allocator.features)
        expand(problem)
        return explain(problem, allocator.ledger)


@contextmanager
def _deep_enough(problem: Problem) -> Iterator[None]:
    """Let the search recurse once per device and request: a pod with many claims goes deeper than Python expects."""
    steps = sum(
        max((choice.count for choice in request.choices), default=0) + 2
        for requests in problem.requests
        for request in requests
    )
    before = sys.getrecursionlimit()
    needed = 4 * (steps + len(problem.requests)) + 500
    if needed <= before - 500:
        yield
        return
    sys.setrecursionlimit(before + needed)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
