"""The same answer without the walk: the lexicographically first assignment, found with masks, bounds and memory.

The walk of section 8 tries devices in order and learns nothing from a failure. This search makes the same choices in
the same order, but skips those that cannot lead anywhere (spec: allocation.md, 15.4):

* candidates are bit masks; a request with fewer candidates left than it needs fails at once, and so does every later
  one that this choice would starve;
* of interchangeable devices only the first is tried, and requests that ask for the same are filled in ascending
  order;
* a state that failed is remembered; states are immutable, so nothing is ever undone;
* a matching decides whether the remaining requests can share the remaining devices at all.

The means beyond the first are taken up only after the first failure: most searches never fail, and those pay for
nothing. It must not be used where the order of the walk shows: there an error may lie in wait (see `Tables` and
`PlainSearch`).
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.allocation.checks.capacity import Usage
from cathedra.allocation.search.budget import Meter
from cathedra.allocation.search.meters import Counters
from cathedra.allocation.search.problem import Choice, Placement, Problem, Solution
from cathedra.allocation.search.requests import CLAIM_LIMIT, Option
from cathedra.allocation.search.rules import Rule

__all__ = ["FastSearch"]

_NO: Final = 0
_YES: Final = 1
_EXCEEDED: Final = 2


class _State:
    """What the placements so far have used up. Never changed."""

    __slots__ = ("blocked", "capacity", "counters", "mine", "placed", "sharing", "used", "values")

    def __init__(
        self,
        used: int,
        mine: int,
        placed: int,
        values: tuple[Any, ...],
        counters: Any,
        blocked: int,
        capacity: dict[int, dict[str, int]],
        sharing: int,
    ) -> None:
        self.used = used
        """Dedicated devices taken in this call."""
        self.mine = mine
        """Those taken for the current claim, which bind admin requests."""
        self.placed = placed
        """Devices of the current claim."""
        self.values = values
        """State of each constraint of the current claim."""
        self.counters = counters
        self.blocked = blocked
        """Devices whose counters or compatibility groups no longer allow them."""
        self.capacity = capacity
        self.sharing = sharing
        """Shareable devices in use, by this call or before it."""


class FastSearch:
    """One search over ``bases``: per option number the devices that pass all fixed tests and are free."""

    def __init__(
        self, problem: Problem, bases: list[int], shareable: int, rules: list[list[Rule]], meter: Meter
    ) -> None:
        self.problem = problem
        self.meter = meter
        self.bases = bases
        self.shareable = shareable
        self.rules = rules
        self.requests = problem.requests
        self.full = (1 << len(problem.devices)) - 1
        self.trail: list[Placement] = []
        self.chosen: list[list[int]] = [[0] * len(requests) for requests in problem.requests]
        self.failures = 0
        self.failed: set[Any] = set()
        self.counters = Counters(problem, shareable) if any(pool.counters for pool in problem.view.usable) else None
        self._classes: tuple[list[int], list[int]] | None = None
        self._twins: dict[tuple[int, int], bool] = {}

    def run(self) -> Solution | None:
        """The first solution, or None.

        Raises:
            BudgetExceeded: even this takes too long.
        """
        sharing = 0
        for state, offset in zip(self.problem.states, self.problem.view.offsets, strict=True):
            sharing |= state.shared << offset
        counters = self.counters
        blocked = counters.blocked_at_first if counters else 0
        start = counters.start if counters else None
        first = _State(0, 0, 0, self._fresh(0), start, blocked & ~sharing, {}, sharing & self.shareable)
        if self._request(0, 0, first, self.full) != _YES:
            return None
        placements: list[list[Placement]] = [[] for _ in self.requests]
        for placement in self.trail:
            placements[placement.choice.option.claim].append(placement)
        return Solution(tuple(map(tuple, placements)), tuple(map(tuple, self.chosen)))

    def _fresh(self, claim: int) -> tuple[Any, ...]:
        return (None,) * len(self.rules[claim]) if claim < len(self.rules) else ()

    # --- requests

    def _request(self, claim: int, request: int, state: _State, within: int) -> int:
        """Satisfy everything from ``request`` on; its first devices must be ``within``."""
        self.meter.step()
        requests = self.requests
        while claim < len(requests) and request >= len(requests[claim]):
            if claim + 1 == len(requests):
                return _YES
            claim, request, within = claim + 1, 0, self.full
            state = _State(
                state.used, 0, 0, self._fresh(claim), state.counters, state.blocked, state.capacity, state.sharing
            )
            answer = self._request(claim, 0, state, within)
            return _NO if answer == _EXCEEDED else answer
        if claim >= len(requests):
            return _YES
        key = None
        if self.failures:
            key = (claim, request, within, *self._key(state))
            if key in self.failed or not self._can_continue(claim, request, state):
                return _NO
        current = requests[claim][request]
        answer = (
            self._alternatives(claim, request, state)
            if current.alternatives
            else self._choice(claim, request, 0, state, within)
        )
        if answer == _NO:
            self.failures += 1
            self.failed.add(key if key is not None else (claim, request, within, *self._key(state)))
        return answer

    def _alternatives(self, claim: int, request: int, state: _State) -> int:
        answer = _EXCEEDED
        for sub in range(len(self.requests[claim][request].choices)):
            found = self._choice(claim, request, sub, state, self.full)
            if found == _YES:
                self.chosen[claim][request] = sub
                return _YES
            if found == _NO:
                answer = _NO
        return answer

    def _choice(self, claim: int, request: int, sub: int, state: _State, within: int) -> int:
        choice = self.requests[claim][request].choices[sub]
        if choice.devices is not None:
            return self._all(claim, request, choice, state)
        if choice.count <= 0:
            return self._request(claim, request + 1, state, self.full)
        if choice.count > CLAIM_LIMIT - state.placed:
            return _EXCEEDED
        return self._scan(claim, request, choice, choice.count, state, within)

    def _all(self, claim: int, request: int, choice: Choice, state: _State) -> int:
        devices = choice.devices
        if not devices:
            return _NO
        if choice.count > CLAIM_LIMIT - state.placed:
            return _EXCEEDED
        mark = len(self.trail)
        for position in devices:
            if not self._candidates(choice.option, state) >> position & 1:
                del self.trail[mark:]
                return _NO
            state = self._place(choice, position, state)
        answer = self._request(claim, request + 1, state, self.full)
        if answer != _YES:
            del self.trail[mark:]
        return answer

    def _scan(self, claim: int, request: int, choice: Choice, needed: int, state: _State, within: int) -> int:
        """Place ``needed`` more devices for ``choice``, in ascending order and ``within`` a mask."""
        option = choice.option
        left = self._candidates(option, state) & within
        key = None
        if self.failures and needed != choice.count:
            key = (claim, request, option.sub, needed, left, *self._key(state))
            if key in self.failed:
                return _NO
        while left:
            if left.bit_count() < needed or (self.failures and not self._enough(option, left, needed, state)):
                break
            bit = left & -left
            position = bit.bit_length() - 1
            left ^= bit
            self.meter.step()
            after = self._place(choice, position, state)
            if needed > 1 and self.failures and not self._spares_others(claim, request, state, after):
                answer = _NO
            elif needed > 1:
                answer = self._scan(claim, request, choice, needed - 1, after, left)
            else:
                twin = self._is_twin(claim, request)
                answer = self._request(claim, request + 1, after, left if twin else self.full)
            if answer == _YES:
                return _YES
            self.trail.pop()
            if answer == _EXCEEDED:
                return _EXCEEDED
            self.failures += 1
            left &= ~self._alike(option, position, state)
        if needed != choice.count:
            self.failures += 1
            self.failed.add(key if key is not None else (claim, request, option.sub, needed, within, *self._key(state)))
        return _NO

    # --- candidates and placement

    def _candidates(self, option: Option, state: _State) -> int:
        left = self.bases[option.number] & ~state.blocked
        left &= ~(state.mine if option.admin else state.used)
        for rule, value in zip(self.rules[option.claim], state.values, strict=True):
            if rule.concerns(option):
                left &= rule.admitted(value)
        for position, used in state.capacity.items():
            if left >> position & 1 and not self._fits(option, position, used):
                left &= ~(1 << position)
        return left

    def _fits(self, option: Option, position: int, used: dict[str, int]) -> bool:
        needed = self.problem.usage(option, self.problem.devices[position])
        assert isinstance(needed, Usage)
        return needed.fits(used)

    def _place(self, choice: Choice, position: int, state: _State) -> _State:
        """The state after ``position``, which is a candidate, is given to ``choice``; the trail grows."""
        option = choice.option
        bit = 1 << position
        rules = self.rules[option.claim]
        values = state.values
        if rules:
            values = tuple(
                rule.joined(value, position) if rule.concerns(option) else value
                for rule, value in zip(rules, values, strict=True)
            )
        counters, blocked = state.counters, state.blocked
        if self.counters is not None and not state.sharing & bit:
            counters, blocked = self.counters.charged(counters, blocked, position)
            blocked &= ~state.sharing
        if not self.shareable & bit:
            self.trail.append(Placement(choice, position, None))
            return _State(
                state.used | bit,
                state.mine | bit,
                state.placed + 1,
                values,
                counters,
                blocked,
                state.capacity,
                state.sharing,
            )
        needed = self.problem.usage(option, self.problem.devices[position])
        assert isinstance(needed, Usage)
        capacity = state.capacity
        if needed.names:
            used = dict(capacity.get(position) or self._used_before(position))
            for name, amount in zip(needed.full_names, needed.amounts, strict=True):
                used[name] = used.get(name, 0) + amount.nanos
            capacity = {**capacity, position: used}
        self.trail.append(Placement(choice, position, needed))
        return _State(
            state.used,
            state.mine,
            state.placed + 1,
            values,
            counters,
            blocked & ~bit,
            capacity,
            state.sharing | bit,
        )

    def _used_before(self, position: int) -> dict[str, int]:
        pool, place = self.problem.state_of(position)
        return pool.capacity.get(place, {})

    # --- what failures teach

    def _key(self, state: _State) -> tuple[Any, ...]:
        capacity: Any = ()
        if state.capacity:
            owner = self._class_of()[0]
            capacity = tuple(sorted((owner[at], tuple(used.items())) for at, used in state.capacity.items()))
        return (state.used, state.mine, state.placed, state.values, state.counters, capacity, state.sharing)

    def _class_of(self) -> tuple[list[int], list[int]]:
        """Per device its class, and per class its members: devices that no test of this search tells apart."""
        if self._classes is None:
            numbers: dict[Any, int] = {}
            owner: list[int] = []
            members: list[int] = []
            for position in range(len(self.problem.devices)):
                number = numbers.setdefault(self._looks(position), len(members))
                if number == len(members):
                    members.append(0)
                owner.append(number)
                members[number] |= 1 << position
            self._classes = (owner, members)
        return self._classes

    def _looks(self, position: int) -> Any:
        record = self.problem.devices[position]
        consumes = record.device.consumes_counters
        share: Any = None
        if self.shareable >> position & 1:
            share = (
                record.signature.number,
                tuple(sorted(self._used_before(position).items())),
                self.problem.state_of(position)[0].shared >> self.problem.state_of(position)[1] & 1,
            )
        return (
            tuple(base >> position & 1 for base in self.bases),
            tuple(rule.devices[position] for rules in self.rules for rule in rules),
            (self.problem.pool_of[position], self.counters.consumption(position))
            if consumes and self.counters
            else None,
            share,
            self._in_all(position),
        )

    def _in_all(self, position: int) -> tuple[int, ...]:
        return tuple(
            choice.option.number
            for requests in self.requests
            for request in requests
            for choice in request.choices
            if choice.devices is not None and position in choice.devices
        )

    def _alike(self, option: Option, position: int, state: _State) -> int:
        """Devices that would fail like the one at ``position``, which failed in ``state``."""
        owner, members = self._class_of()
        alike = members[owner[position]]
        if option.admin:
            # Taking again what another claim has taken leaves more for those who follow.
            alike &= state.used if state.used >> position & 1 else ~state.used
        if not self.shareable >> position & 1:
            return alike
        mine = state.capacity.get(position)
        shared = state.sharing >> position & 1
        rest = alike
        while rest:
            bit = rest & -rest
            rest ^= bit
            other = bit.bit_length() - 1
            if state.capacity.get(other) != mine or (state.sharing >> other & 1) != shared:
                alike ^= bit
        return alike

    def _is_twin(self, claim: int, request: int) -> bool:
        """Whether the next request asks for exactly the same, one dedicated device each."""
        key = (claim, request)
        known = self._twins.get(key)
        if known is None:
            known = self._twins[key] = self._compare(claim, request)
        return known

    def _compare(self, claim: int, request: int) -> bool:
        requests = self.requests[claim]
        if request + 1 >= len(requests):
            return False
        one, other = requests[request], requests[request + 1]
        if one.alternatives or other.alternatives:
            return False
        first, second = one.choices[0], other.choices[0]
        if first.devices is not None or second.devices is not None or first.count != 1 or second.count != 1:
            return False
        base = self.bases[first.option.number]
        return (
            base == self.bases[second.option.number]
            and not base & self.shareable
            and first.option.admin == second.option.admin
            and all(rule.concerns(first.option) == rule.concerns(second.option) for rule in self.rules[claim])
        )

    def _can_continue(self, claim: int, request: int, state: _State) -> bool:
        """Whether enough candidates are left for each open request alone, and for all of them together."""
        units: list[int] = []
        fresh = state
        for index in range(claim, len(self.requests)):
            if index != claim:
                fresh = _State(
                    state.used, 0, 0, self._fresh(index), state.counters, state.blocked, state.capacity, state.sharing
                )
            for one in self.requests[index][request if index == claim else 0 :]:
                reach, count = self._reach(one.choices, fresh)
                if count < 0:
                    return False
                if reach is not None:
                    free = (reach & self.shareable).bit_count()
                    units.extend([reach & ~self.shareable] * (count - free))
        return len(units) < 2 or matchable(units)

    def _spares_others(self, claim: int, request: int, before: _State, after: _State) -> bool:
        """Whether a placement that blocked devices or values leaves enough for each later request of the claim."""
        if before.blocked == after.blocked and before.values == after.values:
            return True
        return all(self._reach(one.choices, after)[1] >= 0 for one in self.requests[claim][request + 1 :])

    def _reach(self, choices: tuple[Choice, ...], state: _State) -> tuple[int | None, int]:
        """Union of candidates and the smallest count; -1 if no choice has enough, None if it does not compete."""
        union = 0
        smallest = -1
        competes = True
        for choice in choices:
            left = self._candidates(choice.option, state)
            if choice.devices is not None:
                wanted = sum(1 << position for position in choice.devices)
                if not wanted or wanted & ~left:
                    continue
                left = wanted
            elif left.bit_count() < choice.count or not self._enough(choice.option, left, choice.count, state):
                continue
            union |= left
            smallest = choice.count if smallest < 0 else min(smallest, choice.count)
            competes = competes and not choice.option.admin
        return (union if competes else None), smallest

    def _enough(self, option: Option, left: int, needed: int, state: _State) -> bool:
        """Whether constraints and counters could let ``needed`` devices of ``left`` be together."""
        for rule, value in zip(self.rules[option.claim], state.values, strict=True):
            if not rule.concerns(option):
                continue
            if rule.constraint.distinct:
                if not rule.lists and rule.values_in(left) < needed:
                    return False
            elif value is None and not rule.lists and needed > 1 and not rule.group_of(left, needed):
                return False
        return self.counters is None or self.counters.suffice(state.counters, left & ~state.sharing, left, needed)


def matchable(units: list[int]) -> bool:
    """Whether every unit can get a device of its own from its mask (Kuhn's algorithm)."""
    owner: dict[int, int] = {}

    def serve(unit: int, seen: list[int]) -> bool:
        free = units[unit] & ~seen[0]
        while free:
            bit = free & -free
            seen[0] |= bit
            if bit not in owner or serve(owner[bit], seen):
                owner[bit] = unit
                return True
            free = units[unit] & ~seen[0]
        return False

    return all(serve(unit, [0]) for unit in sorted(range(len(units)), key=lambda unit: units[unit].bit_count()))
