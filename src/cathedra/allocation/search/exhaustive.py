"""Exhaustive search, exactly as Kubernetes walks it (docs/spec/allocation.md §8 and §9).

Depth first, in order; every candidate is tested when it is reached and not before. It is used to imitate older
releases, whose faults show in the walk alone, and for devices that take counters by the amounts of requests, because
the masks of the fast search know fixed amounts only. Everything else is searched by `cathedra.allocation.search.fast`,
with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cathedra.allocation.checks.capacity import CapacityUsage, Unusable
from cathedra.allocation.checks.requestedcounters import Drawn, consumptions
from cathedra.allocation.checks.values import Value
from cathedra.allocation.claims.problem import Choice, DevicePlacement, Problem, Solution
from cathedra.allocation.claims.requests import CLAIM_LIMIT, Constraint, RequestOption
from cathedra.allocation.errors import FatalError
from cathedra.allocation.features import Features
from cathedra.allocation.search.budget import Meter
from cathedra.allocation.search.state import Frame, SearchResult, depth_first
from cathedra.allocation.supply.devices import DeviceRecord, groups_of
from cathedra.semantics.tolerations import first_untolerated_on_device


class ExhaustiveSearch:
    """One search. ``calls`` counts the steps of the walk, as Kubernetes' own statistics do."""

    def __init__(self, problem: Problem, meter: Meter) -> None:
        self.problem = problem
        self.features = problem.features
        self.meter = meter
        self.calls = 0
        self.mends = problem.features.behaviour.releases_everything
        self.allocating: dict[int, set[int]] = {}
        self.sharing: dict[int, int] = {}
        self.accounts: set[int] = set()
        """Devices that older releases treat as shared in this call."""
        self.capacity: dict[int, dict[str, int]] = {}
        self.consumed: dict[object, dict[tuple[str, str], int]] = {}
        self.first_pool: dict[object, int] = {}
        self.grouped: dict[tuple[int, str], list[frozenset[str]]] = {}
        self.constraints = [
            [make_constraint(constraint, self.features) for constraint in plan.constraints] for plan in problem.plans
        ]
        self.results: list[list[DevicePlacement]] = [[] for _ in problem.plans]
        self.chosen: list[list[int]] = [[0] * len(requests) for requests in problem.requests]

    def run(self) -> Solution | None:
        """Return the first solution, or None if there is none.

        Raises:
            FatalError: the walk met a failure.
            BudgetExceeded: the walk takes too long.
        """
        if depth_first(_Step(self, 0, 0)) is not SearchResult.FOUND:
            return None
        return Solution(tuple(map(tuple, self.results)), tuple(map(tuple, self.chosen)))

    # --- the checks of section 9

    def in_use(self, option: RequestOption, claim: int, position: int) -> bool:
        # Admin access ignores other claims, but not a device that the same claim already has.
        if option.admin:
            return claim in self.allocating.get(position, ())
        state, place = self.problem.state_of(position)
        return bool(state.taken >> place & 1) or bool(self.allocating.get(position))

    def has_capacity(self, option: RequestOption, position: int) -> bool:
        record = self.problem.devices[position]
        needed = self.problem.usage(option, record)
        if isinstance(needed, Unusable):
            if needed.error:
                raise FatalError(needed.error)
            return False
        state, place = self.problem.state_of(position)
        return needed.fits(_added(state.capacity.get(place), self.capacity.get(position)))

    def _is_shared(self, position: int) -> bool:
        """Return True if a share of the device is in use, by earlier allocations or by this call."""
        state, place = self.problem.state_of(position)
        if self.mends:
            return bool(state.shared >> place & 1) or bool(self.sharing.get(position))
        return place in state.capacity or position in self.accounts

    def place(self, choice: Choice, position: int, *, must: bool) -> _Undo | None:
        option = choice.option
        record = self.problem.devices[position]
        shareable = self.problem.is_shareable(record)
        if self.in_use(option, option.claim, position):
            return None
        if self.mends and not option.admin and not shareable and self._is_shared(position):
            return None
        if record.slice.skip_operations and not self.problem.operations_optional:
            return None
        undo = _Undo(self, position, option)
        consumes = bool(record.device.consumes_counters)
        if consumes:
            if not self.features.partitionable_devices:
                return None
            # Counters are charged for a device once, with its first share.
            if not (shareable and self._is_shared(position)):
                if not self._groups_admit(record, position):
                    return None
                if not self._charge(record, position):
                    return None
                undo.charged = True
        if self.problem.draws(record):
            drawn = self._draw(option, position)
            if drawn is None:
                self._rejected(undo)
                return None
            undo.drawn = drawn
        if self.features.device_taints and first_untolerated_on_device(record.taints, option.tolerations) is not None:
            self._rejected(undo)
            return None
        for constraint in self.constraints[option.claim]:
            if not constraint.rule.concerns(option):
                continue
            value = self.problem.value(option, record, constraint.rule)
            if not constraint.add(option, value):
                if must:
                    raise FatalError(
                        f"{option.where}: cannot add device {record} because a claim constraint would not be satisfied"
                    )
                # Constraints before the failing one have recorded the device; older releases undo them even where they
                # forget the rest.
                undo.run_constraints()
                self._rejected(undo)
                return None
            undo.constraints.append(constraint)
        if not shareable:
            self.allocating.setdefault(position, set()).add(option.claim)
            undo.marked = True
        share: CapacityUsage | None = None
        if self.features.consumable_capacity:
            if not self.has_capacity(option, position):
                self._rejected(undo)
                return None
            if shareable:
                share = self._take_share(option, record, position)
                undo.share = share
        self.results[option.claim].append(DevicePlacement(choice, position, share, consumptions(undo.drawn)))
        undo.placed = True
        return undo

    def _rejected(self, undo: _Undo) -> None:
        """Older releases do not release what a rejected device consumed (section 14, faults 1 and 3)."""
        if self.mends:
            undo.run()

    def _take_share(self, option: RequestOption, record: DeviceRecord, position: int) -> CapacityUsage:
        needed = self.problem.usage(option, record)
        assert isinstance(needed, CapacityUsage)
        used = self.capacity.setdefault(position, {})
        for name, amount in zip(needed.full_names, needed.amounts, strict=True):
            used[name] = used.get(name, 0) + amount.nanos
        self.sharing[position] = self.sharing.get(position, 0) + 1
        self.accounts.add(position)
        return needed

    # --- counters and compatibility groups, section 11

    def _pool_key(self, position: int) -> object:
        """Older releases do not distinguish pools of one name (section 14, fault 6)."""
        pool = self.problem.pool(position).id
        return pool if self.mends else pool[1]

    def _charge(self, record: DeviceRecord, position: int) -> bool:
        key = self._pool_key(position)
        consumed = self.consumed.setdefault(key, {})
        # In older releases pools of one name share an entry, whose limits are those of the pool that came first.
        first = self.first_pool.setdefault(key, self.problem.pool_of[position])
        available = self.problem.states[first].available
        _add_counters(consumed, record, 1)
        if _within(consumed, available):
            if self.features.compatibility_groups:
                for one in record.device.consumes_counters:
                    at = (self.problem.pool_of[position], one.counter_set)
                    self.grouped.setdefault(at, []).append(frozenset(groups_of(one)))
            return True
        _add_counters(consumed, record, -1)
        return False

    def _draw(self, option: RequestOption, position: int) -> Drawn | None:
        """Draw the amounts of a request from the counters. Return None if too little is left, or a policy forbids
        it."""
        amounts = self.problem.drawn(option, position)
        if isinstance(amounts, Unusable):
            if amounts.error:
                raise FatalError(amounts.error)
            return None
        consumed = self.consumed.setdefault(self._pool_key(position), {})
        _add_drawn(consumed, amounts, 1)
        if _within(consumed, self.problem.states[self.problem.pool_of[position]].available):
            return amounts
        _add_drawn(consumed, amounts, -1)
        return None

    def give_back(self, amounts: Drawn, position: int) -> None:
        """Return the amounts of `_draw` to the counters."""
        _add_drawn(self.consumed[self._pool_key(position)], amounts, -1)

    def release_counters(self, record: DeviceRecord, position: int) -> None:
        """Release the counters charged by `_charge`."""
        _add_counters(self.consumed[self._pool_key(position)], record, -1)
        if self.features.compatibility_groups:
            for one in record.device.consumes_counters:
                self.grouped[self.problem.pool_of[position], one.counter_set].remove(frozenset(groups_of(one)))

    def _groups_admit(self, record: DeviceRecord, position: int) -> bool:
        if not self.features.compatibility_groups:
            return True
        pool = self.problem.pool_of[position]
        for one in record.device.consumes_counters:
            present = list(self.grouped.get((pool, one.counter_set), ()))
            earlier = self.problem.states[pool].groups.get(one.counter_set)
            if earlier is not None:
                present.append(earlier)
            if present and not admits(frozenset.intersection(*present), frozenset(groups_of(one))):
                return False
        return True


class _Step:
    """One step of the walk; ``sub`` is set while it works on one sub-request, of which ``placed`` devices are placed
    and the next is looked for from ``start`` on."""

    __slots__ = ("claim", "exceeded", "placed", "request", "start", "sub", "then", "undo", "walk")

    def __init__(
        self, walk: ExhaustiveSearch, claim: int, request: int, sub: int | None = None, placed: int = 0, start: int = 0
    ) -> None:
        self.walk, self.claim, self.request = walk, claim, request
        self.sub, self.placed, self.start = sub, placed, start
        self.exceeded = True
        self.undo: _Undo | None = None
        self.then: Callable[[SearchResult], Frame | SearchResult] = _passed_on
        """Continuation that is called with the result of the next step."""

    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        return self._begin() if result is None else self.then(result)

    def _begin(self) -> Frame | SearchResult:
        walk, claim, request = self.walk, self.claim, self.request
        walk.calls += 1
        walk.meter.step()
        requests = walk.problem.requests
        if claim >= len(requests):
            return SearchResult.FOUND
        if request >= len(requests[claim]):
            self.then = self._after_claim
            return _Step(walk, claim + 1, 0)
        current = requests[claim][request]
        if current.alternatives and self.sub is None:
            self.then = self._after_alternative
            return self._alternative(0)
        choice = self._choice
        if choice.devices is not None and not choice.devices:
            return SearchResult.NOTHING
        if self.placed >= choice.count:
            return _Step(walk, claim, request + 1)
        # Tested before a candidate is evaluated, so a failing selector behind the limit is never evaluated.
        if choice.count - self.placed > CLAIM_LIMIT - len(walk.results[claim]):
            return SearchResult.EXCEEDED
        if choice.devices is None:
            self.then = self._after_candidate
            return self._scan()
        self.undo = walk.place(choice, choice.devices[self.placed], must=True)
        if self.undo is None:
            return SearchResult.NOTHING
        self.then = self._after_device
        return _Step(walk, claim, request, self.sub, self.placed + 1)

    @property
    def _choice(self) -> Choice:
        return self.walk.problem.requests[self.claim][self.request].choices[self.sub or 0]

    def _after_claim(self, result: SearchResult) -> SearchResult:
        # The limit is per claim. For the claims before, it is an ordinary failure.
        return SearchResult.NOTHING if result is SearchResult.EXCEEDED else result

    def _alternative(self, sub: int) -> Frame:
        self.walk.chosen[self.claim][self.request] = sub
        return _Step(self.walk, self.claim, self.request, sub)

    def _after_alternative(self, result: SearchResult) -> Frame | SearchResult:
        self.exceeded = self.exceeded and result is SearchResult.EXCEEDED
        sub = self.walk.chosen[self.claim][self.request] + 1
        if sub < len(self.walk.problem.requests[self.claim][self.request].choices):
            return self._alternative(sub)
        return SearchResult.EXCEEDED if self.exceeded else SearchResult.NOTHING

    def _after_device(self, result: SearchResult) -> SearchResult:
        assert self.undo is not None
        self.undo.run()
        return result

    def _scan(self) -> Frame | SearchResult:
        walk, choice = self.walk, self._choice
        for position in range(self.start, len(walk.problem.devices)):
            if walk.in_use(choice.option, self.claim, position):
                continue
            if not walk.problem.selectable(choice.option, position):
                continue
            if walk.features.consumable_capacity and not walk.has_capacity(choice.option, position):
                continue
            self.undo = walk.place(choice, position, must=False)
            if self.undo is not None:
                self.start = position + 1
                return _Step(walk, self.claim, self.request, self.sub, self.placed + 1, position + 1)
        return SearchResult.NOTHING

    def _after_candidate(self, result: SearchResult) -> Frame | SearchResult:
        assert self.undo is not None
        self.undo.run()
        # Other devices do not make the claim smaller.
        return result if result is SearchResult.EXCEEDED else self._scan()


def _passed_on(result: SearchResult) -> SearchResult:
    return result


def admits(present: frozenset[str], groups: frozenset[str]) -> bool:
    """Return True if a device with ``groups`` is compatible with devices whose common groups are ``present``."""
    return bool(present & groups) if groups else not present


def _add_counters(consumed: dict[tuple[str, str], int], record: DeviceRecord, sign: int) -> None:
    for consumption in record.device.consumes_counters:
        for name, counter in consumption.counters.items():
            key = (consumption.counter_set, name)
            consumed[key] = consumed.get(key, 0) + sign * counter.amount.nanos


def _add_drawn(consumed: dict[tuple[str, str], int], amounts: Drawn, sign: int) -> None:
    for place, amount in amounts.items():
        consumed[place] = consumed.get(place, 0) + sign * amount.nanos


def _within(consumed: dict[tuple[str, str], int], available: Mapping[tuple[str, str], int]) -> bool:
    """Return True if no counter is exceeded; one that others have exceeded already counts as well."""
    needed = {place: consumed.get(place, 0) for place in available} | consumed
    return all(amount <= available.get(place, 0) for place, amount in needed.items())


def _added(one: Mapping[str, int] | None, other: Mapping[str, int] | None) -> Mapping[str, int]:
    if not other:
        return one or {}
    if not one:
        return other
    return {name: one.get(name, 0) + other.get(name, 0) for name in one.keys() | other.keys()}


class _Undo:
    """The effects of a placement, to be undone."""

    __slots__ = ("charged", "constraints", "drawn", "marked", "option", "placed", "position", "search", "share")

    def __init__(self, search: ExhaustiveSearch, position: int, option: RequestOption) -> None:
        self.search, self.position, self.option = search, position, option
        self.charged = self.marked = self.placed = False
        self.constraints: list[RunningConstraint] = []
        self.share: CapacityUsage | None = None
        self.drawn: Drawn = {}

    def run_constraints(self) -> None:
        for constraint in self.constraints:
            constraint.remove(self.option)
        self.constraints = []

    def run(self) -> None:
        search, position = self.search, self.position
        record = search.problem.devices[position]
        self.run_constraints()
        if self.marked:
            search.allocating[position].discard(self.option.claim)
        if self.share is not None:
            self._return_share(self.share)
        if self.drawn:
            search.give_back(self.drawn, position)
        if self.charged and (search.mends or not search.problem.is_shareable(record)):
            search.release_counters(record, position)
        if self.placed:
            search.results[self.option.claim].pop()

    def _return_share(self, share: CapacityUsage) -> None:
        search, position = self.search, self.position
        used = search.capacity[position]
        for name, amount in zip(share.full_names, share.amounts, strict=True):
            used[name] -= amount.nanos
        search.sharing[position] -= 1
        # Older releases close an account when nothing is left on it: too early if a share of nothing is left, and
        # never if the device has no capacity (section 14, fault 8).
        if share.names and not any(used.values()):
            search.accounts.discard(position)


class RunningConstraint:
    """A constraint with the values placed so far."""

    def __init__(self, rule: Constraint, features: Features) -> None:
        self.rule = rule
        self.lists = features.list_type_attributes
        self.behaviour = features.behaviour

    def add(self, option: RequestOption, value: Value | None) -> bool:
        """Add a device's value. Return False, and leave the constraint unchanged, if the value violates it."""
        raise NotImplementedError  # each constraint does

    def remove(self, option: RequestOption) -> None:
        """Remove the value that was added last."""
        raise NotImplementedError  # each constraint does


class _Match(RunningConstraint):
    """Requires that all values are equal or, with lists, have an element in common."""

    def __init__(self, rule: Constraint, features: Features) -> None:
        super().__init__(rule, features)
        self.common: list[Value] = []

    def add(self, option: RequestOption, value: Value | None) -> bool:
        if value is None:
            return False
        if not self.common:
            self.common.append(value)
            return True
        kind, known = self.common[-1]
        if kind != value[0] or kind == "unknown":
            return False
        if not self.lists:
            if known != value[1]:
                return False
            self.common.append(value)
            return True
        assert isinstance(known, frozenset)
        assert isinstance(value[1], frozenset)
        common = known & value[1]
        if common:
            self.common.append((kind, common))
        return bool(common)

    def remove(self, option: RequestOption) -> None:
        last = self.common.pop()
        if self.common and self.lists and not self.behaviour.releases_everything:
            self.common[-1] = last


class _Distinct(RunningConstraint):
    """Requires that no two values are equal or, with lists, have an element in common."""

    def __init__(self, rule: Constraint, features: Features) -> None:
        super().__init__(rule, features)
        self.values: list[Value] = []

    def add(self, option: RequestOption, value: Value | None) -> bool:
        if value is None:
            return False
        for kind, known in self.values:
            if kind != value[0]:
                if self.behaviour.foreign_type_ends_distinct and not self.lists:
                    break
                continue
            if self._collide(known, value[1]):
                return False
        self.values.append(value)
        return True

    def _collide(self, known: object, new: object) -> bool:
        if isinstance(known, frozenset) and isinstance(new, frozenset):
            return not known.isdisjoint(new)
        return known == new

    def remove(self, option: RequestOption) -> None:
        self.values.pop()


class _ForgetfulDistinct(_Distinct):
    """``distinctAttribute`` as released: only one value per request is kept (section 14, fault 5)."""

    def __init__(self, rule: Constraint, features: Features) -> None:
        super().__init__(rule, features)
        self.latest: dict[str, Value] = {}
        self.count = 0

    def add(self, option: RequestOption, value: Value | None) -> bool:
        if value is None:
            return False
        if self.count:
            if value[0] == "unknown":
                return False
            for kind, known in self.latest.values():
                if kind == value[0] and self._collide(known, value[1]):
                    return False
        self.latest[option.parent] = value
        self.count += 1
        return True

    def remove(self, option: RequestOption) -> None:
        self.latest.pop(option.parent, None)
        self.count -= 1


def make_constraint(rule: Constraint, features: Features) -> RunningConstraint:
    """Return the checker of a constraint for one search."""
    if not rule.distinct:
        return _Match(rule, features)
    return _Distinct(rule, features) if features.behaviour.releases_everything else _ForgetfulDistinct(rule, features)
