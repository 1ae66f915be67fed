"""The allocator: claims and a node go in; allocation results, or a refusal, come out.

What can be done once per pod is done in `Allocator.prepare`; what is left for a node is small, and nodes that look alike share
one answer (see `cathedra.allocation.answers`).
"""

from __future__ import annotations

import random as random_module
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cathedra.allocation.checks.selectors import Questions
from cathedra.allocation.errors import NodeError
from cathedra.allocation.features import Features
from cathedra.allocation.reasons import RequestReason, explain
from cathedra.allocation.refusal import Refusal
from cathedra.allocation.search.budget import Budget, BudgetExceeded, Meter
from cathedra.allocation.search.plain import PlainSearch
from cathedra.allocation.search.problem import Problem, Solution, expand
from cathedra.allocation.search.requests import ClaimPlan, ClassLookup, plan_claims
from cathedra.allocation.search.result import write_results
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


class PreparedRequests:
    """The claims of a pod, ready to be put to nodes."""

    def __init__(self, allocator: Allocator, plans: tuple[ClaimPlan, ...]) -> None:
        self.allocator = allocator
        self.plans = plans

    def on(self, node: core_v1.Node) -> Allocation | Refusal:
        """The answer of ``node``.

        Raises:
            NodeError: the node is out; others should be tried.
            FatalError: the claims cannot be allocated at all until something changes.
        """
        allocator = self.allocator
        view = node_view(allocator.inventory, node, allocator.features)
        problem = self._problem(node, view)
        try:
            solution = _search(problem, allocator.budget)
        except BudgetExceeded as stop:
            return Refusal(node.metadata.name, lambda: self._explain(node, view), stop.states)
        if solution is None:
            if view.invalid:
                raise NodeError("invalid resource pools were encountered")
            return Refusal(node.metadata.name, lambda: self._explain(node, view))
        return Allocation(
            node.metadata.name,
            write_results(
                self.plans,
                problem.requests,
                solution,
                problem.devices,
                node.metadata.name,
                allocator.features,
                allocator.new_share_id,
            ),
        )

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

    def _problem(self, node: core_v1.Node, view: NodeView) -> Problem:
        problem = Problem(self.plans, node, view, self.allocator.ledger, self.allocator.features)
        expand(problem)
        return problem

    def _explain(self, node: core_v1.Node, view: NodeView) -> tuple[RequestReason, ...]:
        return explain(self._problem(node, view), self.allocator.ledger)


def _search(problem: Problem, budget: Budget) -> Solution | None:
    return PlainSearch(problem, Meter(budget)).run()
