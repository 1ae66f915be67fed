"""The reasons of a refusal: per request, how many devices are left after each test.

The tests come in the order in which the search applies them, and each one looks only at what the one before let
through; so the first count that falls to zero is the answer. What no single test explains is explained by what the
requests take from each other: constraints, counters, capacity.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cathedra.allocation.checks.capacity import Unusable
from cathedra.allocation.checks.selectors import Failure
from cathedra.allocation.checks.taints import first_untolerated
from cathedra.allocation.errors import FatalError
from cathedra.allocation.search.problem import Choice, Problem
from cathedra.allocation.search.requests import Option
from cathedra.allocation.supply.ledger import LedgerSnapshot

__all__ = ["RequestReason", "SelectorReason", "explain"]


class SelectorReason(msgspec.Struct, frozen=True):
    """One selector: how many devices reached it, passed, lacked an attribute, or failed otherwise."""

    origin: str
    """«class NAME» or «claim NAMESPACE/NAME»."""
    index: int
    asked: int
    passed: int
    missing: int
    """Devices without something that the selector asks for."""
    errors: int


class RequestReason(msgspec.Struct, frozen=True):
    """How many devices are left for a request, or one of its sub-requests, after each test."""

    claim: str
    request: str
    wanted: int
    in_reach: int
    """In pools that the node can use."""
    bound: int
    """Not kept away by binding conditions."""
    class_passed: int
    selected: int
    selectors: tuple[SelectorReason, ...]
    on_node: int
    """Also meant for this node by their own selection."""
    free: int
    holders: Mapping[str, int]
    """Who holds the others: «namespace/name» → devices."""
    operable: int
    """Not in need of a kubelet feature that the node lacks."""
    tolerated: int
    taints: Mapping[str, int]
    """The first taint that is not tolerated → devices."""
    with_capacity: int
    with_counters: int
    constraint_values: int
    """Having the attributes that constraints compare."""
    constraints: tuple[str, ...]
    unusable_pools: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Pools that are incomplete or invalid."""

    @property
    def available(self) -> int:
        """Devices that pass every test on their own."""
        return self.constraint_values

    @property
    def obstacle(self) -> str:
        """The first test that leaves fewer devices than wanted, or «combination»."""
        for name, count in (
            ("reach", self.in_reach),
            ("binding conditions", self.bound),
            ("class", self.class_passed),
            ("selectors", self.selected),
            ("node selection", self.on_node),
            ("allocated", self.free),
            ("node operations", self.operable),
            ("taints", self.tolerated),
            ("capacity", self.with_capacity),
            ("counters", self.with_counters),
            ("constraint attributes", self.constraint_values),
        ):
            if count < max(self.wanted, 1):
                return name
        return "combination"

    def __str__(self) -> str:
        parts = [f"{self.claim}, request {self.request}: {self.wanted} wanted", f"{self.in_reach} in reach"]
        for label, count, before in (
            ("of the class", self.class_passed, self.bound),
            ("selected", self.selected, self.class_passed),
            ("for this node", self.on_node, self.selected),
            ("free", self.free, self.on_node),
            ("operable", self.operable, self.free),
            ("tolerated", self.tolerated, self.operable),
            ("with capacity", self.with_capacity, self.tolerated),
            ("with counters", self.with_counters, self.with_capacity),
            ("with the constraints' attributes", self.constraint_values, self.with_counters),
        ):
            if count != before:
                parts.append(f"{count} {label}")
        if self.obstacle == "combination":
            parts.append("but no combination satisfies " + (", ".join(self.constraints) or "all requests together"))
        return ", ".join(parts)


def explain(problem: Problem, ledger: LedgerSnapshot) -> tuple[RequestReason, ...]:
    """The reasons for every request and sub-request."""
    return tuple(
        _Explanation(problem, ledger, choice).reason()
        for requests in problem.requests
        for request in requests
        for choice in request.choices
    )


class _Explanation:
    def __init__(self, problem: Problem, ledger: LedgerSnapshot, choice: Choice) -> None:
        self.problem, self.ledger, self.choice = problem, ledger, choice
        self.option: Option = choice.option

    def reason(self) -> RequestReason:
        problem, option = self.problem, self.option
        plan = problem.plans[option.claim]
        every = list(range(len(problem.devices)))
        bound = [
            one
            for one in every
            if problem.features.device_binding_and_status or not problem.devices[one].device.binding_conditions
        ]
        of_class, selected, selectors = self._select(bound)
        on_node = [one for one in selected if self._on_node(one)]
        holders: dict[str, int] = {}
        free = [one for one in on_node if self._is_free(one, holders)]
        operable = [
            one for one in free if not problem.devices[one].slice.skip_operations or problem.operations_optional
        ]
        taints: dict[str, int] = {}
        tolerated = [one for one in operable if self._tolerates(one, taints)]
        roomy = [one for one in tolerated if self._has_capacity(one)]
        counted = [one for one in roomy if self._has_counters(one)]
        rules = [rule for rule in plan.constraints if rule.concerns(option)]
        valued = [one for one in counted if all(self._has_value(one, rule) for rule in rules)]
        return RequestReason(
            claim=plan.where,
            request=option.name,
            wanted=self.choice.count,
            in_reach=len(every),
            bound=len(bound),
            class_passed=of_class,
            selected=len(selected),
            selectors=selectors,
            on_node=len(on_node),
            free=len(free),
            holders=holders,
            operable=len(operable),
            tolerated=len(tolerated),
            taints=taints,
            with_capacity=len(roomy),
            with_counters=len(counted),
            constraint_values=len(valued),
            constraints=tuple(
                f"{'distinctAttribute' if rule.distinct else 'matchAttribute'} {rule.attribute}" for rule in rules
            ),
            unusable_pools={
                str(pool): pool.status.value for pool in problem.view.pools if pool not in problem.view.usable
            },
        )

    def _select(self, positions: list[int]) -> tuple[int, list[int], tuple[SelectorReason, ...]]:
        tallies = [[0, 0, 0, 0] for _ in self.option.origins]
        of_class = 0
        selected = []
        own = sum(origin.startswith("class ") for origin, _ in self.option.origins)
        for position in positions:
            verdicts = self.option.question.each(self.problem.devices[position].signature)
            passed = 0
            for tally, verdict in zip(tallies, verdicts, strict=True):
                tally[0] += 1
                if verdict is True:
                    tally[1] += 1
                    passed += 1
                    continue
                if isinstance(verdict, Failure):
                    tally[2 if verdict.cause.startswith("no such key") else 3] += 1
                break
            of_class += passed >= own
            if passed == len(verdicts):
                selected.append(position)
        reasons = tuple(
            SelectorReason(origin, index, *tally)
            for (origin, index), tally in zip(self.option.origins, tallies, strict=True)
        )
        return of_class, selected, reasons

    def _on_node(self, position: int) -> bool:
        target = self.problem.devices[position].own_target
        if target is None:
            return True
        try:
            return target.matches(self.problem.node)
        except FatalError:
            return False

    def _is_free(self, position: int, holders: dict[str, int]) -> bool:
        if self.option.admin:
            return True
        record = self.problem.devices[position]
        state, place = self.problem.state_of(position)
        shared = not self.problem.is_shareable(record) and state.shared >> place & 1
        if not (state.taken >> place & 1 or shared):
            return True
        for holding in self.ledger.holders(*record.id):
            holders[holding.claim] = holders.get(holding.claim, 0) + 1
        return False

    def _tolerates(self, position: int, taints: dict[str, int]) -> bool:
        if not self.problem.features.device_taints:
            return True
        taint = first_untolerated(self.problem.devices[position].taints, self.option.tolerations)
        if taint is None:
            return True
        text = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        taints[text] = taints.get(text, 0) + 1
        return False

    def _has_capacity(self, position: int) -> bool:
        if not self.problem.features.consumable_capacity:
            return True
        record = self.problem.devices[position]
        needed = self.problem.usage(self.option, record)
        if isinstance(needed, Unusable):
            return False
        if not self.problem.is_shareable(record):
            return needed.fits_alone
        state, place = self.problem.state_of(position)
        return needed.fits(state.capacity.get(place, {}))

    def _has_counters(self, position: int) -> bool:
        record = self.problem.devices[position]
        if not record.device.consumes_counters:
            return True
        state, place = self.problem.state_of(position)
        if self.problem.is_shareable(record) and state.shared >> place & 1:
            return True
        needed = {
            (one.counter_set, name): counter.value.nanos
            for one in record.device.consumes_counters
            for name, counter in one.counters.items()
        }
        return all(needed.get(name, 0) <= amount for name, amount in state.available.items())

    def _has_value(self, position: int, rule: object) -> bool:
        from cathedra.allocation.search.requests import Constraint

        assert isinstance(rule, Constraint)
        try:
            return self.problem.value(self.option, self.problem.devices[position], rule) is not None
        except FatalError:
            return False
