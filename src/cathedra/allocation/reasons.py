"""Reasons of a refusal: for each request, the number of devices that are left after each test.

The tests are in the order in which the search applies them, and each one counts only what the one before has passed, so
the first count of zero is the reason. If no single test is the reason, other requests or constraints are: the search is
then repeated without one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Final, Protocol

from cathedra.allocation.checks.capacity import Unusable
from cathedra.allocation.checks.selectors import SelectorFailure
from cathedra.allocation.checks.values import Value
from cathedra.allocation.claims.problem import Choice, Problem
from cathedra.allocation.claims.requests import Constraint, RequestOption
from cathedra.allocation.errors import FatalError
from cathedra.allocation.refusal import ConstraintReason, GroupReason, RefusalExplanation, RequestReason, SelectorReason
from cathedra.allocation.supply.ledger import LedgerSnapshot
from cathedra.allocation.supply.pools import PoolSupply
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import replace
from cathedra.semantics.tolerations import first_untolerated_on_device


class FitTrial(Protocol):
    """Search on the same node for other claims."""

    def __call__(self, claims: Sequence[ResourceClaim], *, all_free: bool = False) -> bool | None:
        """Return True if they fit, or would fit if no device were in use; None if the search was stopped."""


def explain(problem: Problem, ledger: LedgerSnapshot, trial: FitTrial) -> RefusalExplanation:
    """Return the reasons for every request and sub-request."""
    claims = [plan.claim for plan in problem.plans]
    decisive = {
        (index, number): trial([*claims[:index], _without(claims[index], number), *claims[index + 1 :]])
        for index, plan in enumerate(problem.plans)
        for number in range(len(plan.constraints))
    }
    explanations = [
        _Explanation(problem, ledger, choice, decisive, trial([_only(claims, choice.option)]))
        for requests in problem.requests
        for request in requests
        for choice in request.choices
    ]
    reasons = [one.reason() for one in explanations]
    groups = _groups(problem, explanations)
    return RefusalExplanation(
        tuple([one.in_groups(reason, groups) for one, reason in zip(explanations, reasons, strict=True)]),
        trial(claims, all_free=True),
    )


def _groups(problem: Problem, explanations: Sequence[_Explanation]) -> dict[tuple[int, int], GroupReason]:
    """Values that the requests of each matchAttribute constraint can share: claim and place → reason.

    Constraints on requests with alternatives are left out, as are those of a single request. So are devices that may
    serve several requests: their number limits nothing.
    """
    members: dict[tuple[int, int], list[_Explanation]] = {}
    for one in explanations:
        option = one.option
        for number, rule in enumerate(problem.plans[option.claim].constraints):
            if not rule.distinct and rule.concerns(option):
                members.setdefault((option.claim, number), []).append(one)
    forms: dict[tuple[int, int], object] = {}
    for (claim, number), of in members.items():
        if len(of) > 1 and all(one.counts_devices() for one in of):
            rule = problem.plans[claim].constraints[number]
            asked = Counter((tuple(one.usable), one.choice.count, one.option.derived) for one in of)
            forms[claim, number] = (claim, rule.attribute, frozenset(asked.items()))
    alike: dict[object, list[tuple[int, int]]] = {}
    for key, form in forms.items():
        alike.setdefault(form, []).append(key)
    found: dict[tuple[int, int], GroupReason] = {}
    for keys in alike.values():
        first = keys[0]
        reason = _group(problem, first, members[first], _apart([members[key] for key in keys]))
        found.update(dict.fromkeys(keys, reason))
    return found


def _apart(constraints: Sequence[Sequence[_Explanation]]) -> int:
    """Return the number of constraints that share no request with an earlier one."""
    taken: set[int] = set()
    count = 0
    for requests in constraints:
        own = {one.option.request for one in requests}
        if not own & taken:
            taken |= own
            count += 1
    return count


def _group(problem: Problem, key: tuple[int, int], members: Sequence[_Explanation], alike: int) -> GroupReason:
    rule = problem.plans[key[0]].constraints[key[1]]
    held = [one.devices_by_value(rule) for one in members]
    asked = Counter(tuple(one.usable) for one in members for _ in range(one.choice.count))
    served = values = 0
    lacking: dict[str, tuple[str, ...]] = {}
    for value in dict.fromkeys(value for of in held for value in of):
        short = tuple(
            [
                one.option.name
                for one, of in zip(members, held, strict=True)
                if of.get(value, 0) < asked[tuple(one.usable)]
            ]
        )
        if not short:
            values += 1
            served += min([of[value] // asked[tuple(one.usable)] for one, of in zip(members, held, strict=True)])
        elif len(short) < len(members) and len(lacking) < _SHOWN:
            lacking[_shown(value)] = short
    return GroupReason(tuple([one.option.name for one in members]), values, served, alike, lacking)


def _without(claim: ResourceClaim, constraint: int) -> ResourceClaim:
    """Return the claim without one of its constraints."""
    devices = claim.spec.devices
    rest = tuple(one for number, one in enumerate(devices.constraints) if number != constraint)
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, constraints=rest)))


def _only(claims: Sequence[ResourceClaim], option: RequestOption) -> ResourceClaim:
    """Return the claim with that request, or sub-request, alone."""
    claim = claims[option.claim]
    devices = claim.spec.devices
    request = (devices.requests or ())[option.request]
    if request.first_available:
        request = replace(request, first_available=(request.first_available[option.sub],))
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, requests=(request,))))


_SHOWN: Final = 8
"""Largest number of values of an attribute that are listed."""


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
        self.usable: list[int] = []
        """The devices that pass all tests but constraints, once `reason` was called."""

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
        counter_holders: dict[str, int] = {}
        counted = self.usable = [one for one in roomy if self._has_counters(one, counter_holders)]
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
            counter_holders=counter_holders,
            constraint_values=len(valued),
            constraints=tuple(self._constraint(number, rule, counted) for number, rule in rules),
            fits_alone=self.alone,
            unusable_pools={
                str(pool): pool.trouble for pool in problem.supply.pools if pool not in problem.supply.usable
            },
        )

    def _select(self, positions: list[int]) -> tuple[int, list[int], tuple[SelectorReason, ...]]:
        tallies = [[0, 0, 0, 0] for _ in self.option.origins]
        of_class = 0
        selected = []
        own = sum(origin.startswith("class ") for origin, _ in self.option.origins)
        for position in positions:
            verdicts = self.option.question.each(self.problem.devices[position].signature, self.problem.interrupted)
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

    def _has_counters(self, position: int, holders: dict[str, int]) -> bool:
        record = self.problem.devices[position]
        if not record.device.consumes_counters:
            return True
        state, place = self.problem.state_of(position)
        is_charged = self.problem.is_shareable(record) and state.shared >> place & 1
        if is_charged and not self.problem.draws(record):
            return True
        needed = {
            (one.counter_set, name): 0 if is_charged else counter.amount.nanos
            for one in record.device.consumes_counters
            for name, counter in one.counters.items()
        }
        drawn = self.problem.drawn(self.option, position)
        if isinstance(drawn, Unusable):
            return False
        for key, amount in drawn.items():
            needed[key] += amount.nanos
        short = {name[0] for name, amount in state.available.items() if needed.get(name, 0) > amount}
        for claim in self._users_of(short, self.problem.supply.usable[self.problem.pool_of[position]]):
            holders[claim] = holders.get(claim, 0) + 1
        return not short

    def _users_of(self, counter_sets: Set[str], pool: PoolSupply) -> set[str]:
        """Return the claims that hold devices of ``pool`` that consume counters of one of these sets."""
        return {
            holding.claim
            for record in (*pool.devices, *pool.others)
            if any(one.counter_set in counter_sets for one in record.device.consumes_counters)
            for holding in self.ledger.holders(*record.id)
        }

    def in_groups(self, reason: RequestReason, groups: Mapping[tuple[int, int], GroupReason]) -> RequestReason:
        """Return the reason with the values that the requests of each of its constraints can share."""
        plan = self.problem.plans[self.option.claim]
        numbers = [number for number, rule in enumerate(plan.constraints) if rule.concerns(self.option)]
        constraints = [
            replace(constraint, group=groups.get((self.option.claim, number)))
            for number, constraint in zip(numbers, reason.constraints, strict=True)
        ]
        return replace(reason, constraints=tuple(constraints))

    def counts_devices(self) -> bool:
        """Return True if the request takes each of its devices from the others and has no alternatives."""
        problem, option = self.problem, self.option
        if option.admin or not self.choice.count or problem.requests[option.claim][option.request].alternatives:
            return False
        return not any(problem.is_shareable(problem.devices[one]) for one in self.usable)

    def devices_by_value(self, rule: Constraint) -> dict[tuple[str, object], int]:
        """Return the number of usable devices per value; of lists, per element."""
        counts: dict[tuple[str, object], int] = {}
        for position in self.usable:
            value = self._value(position, rule)
            for one in () if value is None else _single(value):
                counts[one] = counts.get(one, 0) + 1
        return counts

    def _constraint(self, number: int, rule: Constraint, positions: list[int]) -> ConstraintReason:
        counts = self.devices_by_value(rule)
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
