"""Symmetries of a search: devices that fail together, and equal requests that may be filled in ascending order."""

from __future__ import annotations

from typing import Any

from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.matching import positions
from cathedra.allocation.search.state import State


class Symmetry:
    """Compares the devices and the requests of one search; computed on first access."""

    __slots__ = ("_candidates", "_classes", "_problem", "_shares_at", "_shares_of", "_twins")

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._problem = candidates.problem
        self._classes: tuple[list[int], list[int]] | None = None
        self._twins: dict[tuple[int, int], bool] = {}
        # A search keeps hundreds of thousands of keys. Numbers in place of these pairs halve their size, and garbage
        # collection leaves such keys alone: one pass took 0.5 s of a search of 6 s.
        self._shares_of: dict[Any, int] = {}
        """Class of a device and what shares use of it → a number."""
        self._shares_at: dict[Any, int] = {}
        """The same for single devices."""

    def request_key(self, state: State) -> tuple[Any, ...]:
        """Two states with the same key lead to the same end when a request begins.

        Shareable devices that are alike may have changed places in them.
        """
        capacity: Any = ()
        if state.shares.used:
            owner, numbers = self._class_of()[0], self._shares_of
            capacity = tuple(
                sorted(
                    numbers.setdefault((owner[at], tuple(used.items())), len(numbers))
                    for at, used in state.shares.used.items()
                )
            )
        return self._key(state, capacity)

    def scan_key(self, state: State) -> tuple[Any, ...]:
        """Two states with the same key lead to the same end in the middle of a request.

        There only devices after the last one may be taken, so none may have changed places.
        """
        numbers = self._shares_at
        capacity = tuple(
            sorted(
                numbers.setdefault((at, tuple(used.items())), len(numbers)) for at, used in state.shares.used.items()
            )
        )
        return self._key(state, capacity)

    def _key(self, state: State, capacity: Any) -> tuple[Any, ...]:
        return state.used, state.mine, state.placed, state.constraints, state.counters, capacity, state.shares.shared

    def alike(self, option: RequestOption, position: int, state: State) -> int:
        """Devices that would fail like the one at ``position``, which failed in ``state``."""
        owner, members = self._class_of()
        alike = members[owner[position]]
        if option.admin:
            # Devices that another claim has taken are preferred: that leaves more for later requests.
            alike &= state.used if state.used >> position & 1 else ~state.used
        if not self._candidates.shareable >> position & 1:
            return alike
        mine = state.shares.used.get(position)
        shared = state.shares.shared >> position & 1
        for other in positions(alike):
            if state.shares.used.get(other) != mine or (state.shares.shared >> other & 1) != shared:
                alike ^= 1 << other
        return alike

    def is_twin(self, claim: int, request: int) -> bool:
        """Return True if the next request is equal to this one, and each is for one dedicated device."""
        key = (claim, request)
        known = self._twins.get(key)
        if known is None:
            known = self._twins[key] = self._compare(claim, request)
        return known

    def _compare(self, claim: int, request: int) -> bool:
        requests = self._problem.requests[claim]
        if request + 1 >= len(requests):
            return False
        one, other = requests[request], requests[request + 1]
        if one.alternatives or other.alternatives:
            return False
        first, second = one.choices[0], other.choices[0]
        if first.devices is not None or second.devices is not None or first.count != 1 or second.count != 1:
            return False
        candidates = self._candidates
        base = candidates.base(first.option)
        return (
            base == candidates.base(second.option)
            and candidates.risky(first.option) == candidates.risky(second.option)
            and not base & candidates.shareable
            and first.option.admin == second.option.admin
            and first.option.derived == second.option.derived
            and all(
                rule.concerns(first.option) == rule.concerns(second.option)
                and not (rule.mixed and rule.concerns(first.option))
                for rule in candidates.rules[claim]
            )
        )

    def _class_of(self) -> tuple[list[int], list[int]]:
        """Class of each device, and members of each class: devices that no test of this search distinguishes."""
        if self._classes is None:
            numbers: dict[Any, int] = {}
            owner: list[int] = []
            members: list[int] = []
            options = self._different_options()
            for position in range(len(self._problem.devices)):
                number = numbers.setdefault(self._shapes_under(position, options), len(members))
                if number == len(members):
                    members.append(0)
                owner.append(number)
                members[number] |= 1 << position
            self._classes = (owner, members)
        return self._classes

    def _different_options(self) -> list[tuple[RequestOption, tuple[int, ...] | None]]:
        """Return one of all options that apply the same tests to a device, with its devices if its mode is All."""
        candidates = self._candidates
        found: dict[object, tuple[RequestOption, tuple[int, ...] | None]] = {}
        for requests in self._problem.requests:
            for request in requests:
                for choice in request.choices:
                    option = choice.option
                    key = (
                        candidates.base(option),
                        candidates.risky(option),
                        choice.devices,
                        option.checks_capacity_last,
                        tuple([rule.source(option) for _, rule in candidates.concerning(option)]),
                    )
                    found.setdefault(key, (option, choice.devices))
        return list(found.values())

    def _shapes_under(self, position: int, options: list[tuple[RequestOption, tuple[int, ...] | None]]) -> Any:
        candidates = self._candidates
        share: Any = None
        if candidates.shareable >> position & 1:
            pool, place = self._problem.state_of(position)
            share = (
                self._problem.devices[position].signature.number,
                tuple(sorted(candidates.shares.used_before(position).items())),
                pool.shared >> place & 1,
            )
        consumption = candidates.consumption(position)
        return (
            tuple(
                [
                    (
                        candidates.base(option) >> position & 1,
                        candidates.risky(option) >> position & 1,
                        self._part_in(option, devices, position),
                        tuple(
                            [
                                (rule.value(option, position), rule.failing(option) >> position & 1)
                                for _, rule in candidates.concerning(option)
                            ]
                        ),
                    )
                    for option, devices in options
                ]
            ),
            None if consumption is None else (self._problem.pool_of[position], consumption),
            share,
        )

    def _part_in(self, option: RequestOption, devices: tuple[int, ...] | None, position: int) -> int:
        """Return the role of the device for mode All: -1 if it has none, the number of devices if it is one of many,
        or, if a constraint may end the walk, its own position."""
        if devices is None or position not in devices:
            return -1
        return position if option.checks_capacity_last else len(devices)
