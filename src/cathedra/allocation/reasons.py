"""The reasons of a refusal: per request, how many devices are left after each test.

The tests come in the order in which the search applies them, and each one looks only at what the one before let
through; so the first count that falls to zero is the answer. What no single test explains is explained by what the
requests take from each other, and by constraints: there the search is asked again without one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from cathedra.allocation.checks.capacity import Unusable
from cathedra.allocation.checks.selectors import SelectorFailure
from cathedra.allocation.checks.values import Value
from cathedra.allocation.claims.problem import Choice, Problem
from cathedra.allocation.claims.requests import Constraint, RequestOption
from cathedra.allocation.errors import FatalError
from cathedra.allocation.supply.ledger import LedgerSnapshot
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import replace
from cathedra.semantics.tolerations import first_untolerated_on_device

__all__ = ["ConstraintReason", "RefusalExplanation", "RequestReason", "SelectorReason", "explain"]


class Trial(Protocol):
    """Asks the same node about other claims."""

    def __call__(self, claims: Sequence[ResourceClaim], *, all_free: bool = False) -> bool | None:
        """Whether they would fit, or would if nothing were in use; None if the search was stopped."""


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


class ConstraintReason(msgspec.Struct, frozen=True):
    """One constraint, and what it makes of the devices that pass all other tests of a request."""

    kind: str
    """«matchAttribute» or «distinctAttribute»."""
    attribute: str
    requests: tuple[str, ...]
    """The requests it speaks about; all if none is named."""
    missing: int
    """Devices without a value that can be compared."""
    values: Mapping[str, int]
    """Value → devices that have it; of many values only the most frequent."""
    together: int
    """So many of the devices agree (matchAttribute), or differ (distinctAttribute); of lists, at most so many."""
    decisive: bool | None
    """Whether the claims would fit without it; None if that search was stopped."""

    def __str__(self) -> str:
        return f"{self.kind} {self.attribute}"


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
    constraints: tuple[ConstraintReason, ...]
    fits_alone: bool | None
    """Whether the request would fit if its claims asked for nothing else; None if that search was stopped. For a
    sub-request: if it were the only one."""
    unusable_pools: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Pools that are incomplete or invalid."""

    @property
    def available(self) -> int:
        """Devices that pass every test on their own."""
        return self.constraint_values

    @property
    def obstacle(self) -> str:
        """The first test that leaves fewer devices than wanted.

        «constraint»: too few devices can be together; «other requests»: alone it would fit; «combination»: nothing of
        these, for instance counters that no choice of devices leaves enough of.
        """
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
        if not self.fits_alone and any(constraint.together < self.wanted for constraint in self.constraints):
            return "constraint"
        return "other requests" if self.fits_alone else "combination"

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
        decisive = [str(constraint) for constraint in self.constraints if constraint.decisive]
        if self.obstacle == "constraint":
            worst = min(self.constraints, key=lambda one: one.together)
            parts.append(f"of which only {worst.together} satisfy {worst} together")
        elif self.obstacle == "other requests":
            parts.append("but other requests need them" + (f" under {', '.join(decisive)}" if decisive else ""))
        elif self.obstacle == "combination":
            parts.append("but no combination satisfies " + (", ".join(decisive) or "all requests together"))
        return ", ".join(parts)


class RefusalExplanation(msgspec.Struct, frozen=True):
    """All reasons of a refusal."""

    requests: tuple[RequestReason, ...]
    fits_when_free: bool | None


def explain(problem: Problem, ledger: LedgerSnapshot, trial: Trial) -> RefusalExplanation:
    """The reasons for every request and sub-request."""
    claims = [plan.claim for plan in problem.plans]
    decisive = {
        (index, number): trial([*claims[:index], _without(claims[index], number), *claims[index + 1 :]])
        for index, plan in enumerate(problem.plans)
        for number in range(len(plan.constraints))
    }
    reasons = tuple(
        _Explanation(problem, ledger, choice, decisive, trial([_only(claims, choice.option)])).reason()
        for requests in problem.requests
        for request in requests
        for choice in request.choices
    )
    return RefusalExplanation(reasons, trial(claims, all_free=True))


def _without(claim: ResourceClaim, constraint: int) -> ResourceClaim:
    """The claim without one of its constraints."""
    devices = claim.spec.devices
    rest = tuple(one for number, one in enumerate(devices.constraints) if number != constraint)
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, constraints=rest)))


def _only(claims: Sequence[ResourceClaim], option: RequestOption) -> ResourceClaim:
    """The claim with that request, or sub-request, alone."""
    claim = claims[option.claim]
    devices = claim.spec.devices
    request = (devices.requests or ())[option.request]
    if request.first_available:
        request = replace(request, first_available=(request.first_available[option.sub],))
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, requests=(request,))))


_SHOWN: Final = 8
"""So many values of an attribute are listed."""


class _Explanation:
    def __init__(
        self,
        problem: Problem,
        ledger: LedgerSnapshot,
        choice: Choice,
        decisive: Mapping[tuple[int, int], bool | None],
        alone: bool | None,
    ) -> None:
        self.problem, self.ledger, self.choice = problem, ledger, choice
        self.option: RequestOption = choice.option
        self.decisive, self.alone = decisive, alone

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
        rules = [(number, rule) for number, rule in enumerate(plan.constraints) if rule.concerns(option)]
        valued = [one for one in counted if all(self._value(one, rule) is not None for _, rule in rules)]
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
            constraints=tuple(self._constraint(number, rule, counted) for number, rule in rules),
            fits_alone=self.alone,
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
                if isinstance(verdict, SelectorFailure):
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
        taint = first_untolerated_on_device(self.problem.devices[position].taints, self.option.tolerations)
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

    def _constraint(self, number: int, rule: Constraint, positions: list[int]) -> ConstraintReason:
        counts: dict[object, int] = {}
        for position in positions:
            value = self._value(position, rule)
            for one in () if value is None else _single(value):
                counts[one] = counts.get(one, 0) + 1
        missing = sum(self._value(position, rule) is None for position in positions)
        frequent = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:_SHOWN]
        return ConstraintReason(
            kind="distinctAttribute" if rule.distinct else "matchAttribute",
            attribute=rule.attribute,
            requests=tuple(sorted(rule.requests)),
            missing=missing,
            values={_shown(one): count for one, count in frequent},
            together=len(counts) if rule.distinct else max(counts.values(), default=0),
            decisive=self.decisive[self.option.claim, number],
        )

    def _value(self, position: int, rule: Constraint) -> Value | None:
        try:
            return self.problem.value(self.option, self.problem.devices[position], rule)
        except FatalError:
            return None


def _single(value: Value) -> list[tuple[str, object]]:
    kind, content = value
    return [(kind, one) for one in content] if isinstance(content, frozenset) else [value]


def _shown(value: object) -> str:
    assert isinstance(value, tuple)
    kind, content = value
    if kind == "version" and isinstance(content, tuple):
        release = ".".join(content[:3])
        return f"{release}-{content[3]}" if content[3] else release
    return str(content).lower() if isinstance(content, bool) else str(content)
