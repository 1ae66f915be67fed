"""Counters and compatibility groups for the fast search: which devices are blocked, as a mask (spec: allocation.md,
11.1 and 11.2).

What a call has consumed of a pool is a small tuple; the devices that it blocks depend on nothing else, so they are
computed once per tuple.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from cathedra.allocation.claims.problem import Problem
from cathedra.allocation.supply.devices import groups_of

__all__ = ["Counters"]

Consumption: TypeAlias = tuple[tuple[int, int], ...]
"""Index of a counter and nano-units."""
Groups: TypeAlias = tuple[tuple[str, frozenset[str]], ...]


class _Pool:
    """The counters of one pool, and who consumes them."""

    __slots__ = ("ascending", "available", "blocked", "consumers", "everyone", "groups")

    def __init__(self) -> None:
        self.ascending: list[list[tuple[int, int]]] = []
        """Per counter the consumers by amount: amount and mask."""
        self.available: list[int] = []
        self.consumers: list[tuple[Consumption, Groups, int]] = []
        self.everyone = 0
        self.groups: dict[str, frozenset[str]] = {}
        self.blocked: dict[Any, int] = {}


class Counters:
    """The counters of all pools of a node. A state has, per pool, what is consumed and which groups are present."""

    def __init__(self, problem: Problem, shareable: int) -> None:
        self.pools: dict[int, _Pool] = {}
        self.order: list[int] = []
        self._consumption: dict[int, tuple[int, Consumption, Groups]] = {}
        self._with_groups = problem.features.compatibility_groups
        for number, pool in enumerate(problem.view.usable):
            if not pool.counters:
                continue
            one = _Pool()
            state = problem.states[number]
            index = {name: at for at, name in enumerate(pool.counters)}
            one.available = [state.available[name] for name in pool.counters]
            one.groups = state.groups if self._with_groups else {}
            offset = problem.view.offsets[number]
            found: dict[tuple[Consumption, Groups], int] = {}
            for place, record in enumerate(pool.devices):
                if not record.device.consumes_counters:
                    continue
                totals: dict[int, int] = {}
                for entry in record.device.consumes_counters:
                    for name, counter in entry.counters.items():
                        at = index[entry.counter_set, name]
                        totals[at] = totals.get(at, 0) + counter.value.nanos
                needs = tuple(sorted(totals.items()))
                groups: Groups = ()
                if self._with_groups:
                    groups = tuple(
                        (entry.counter_set, frozenset(groups_of(entry))) for entry in record.device.consumes_counters
                    )
                self._consumption[offset + place] = (len(self.order), needs, groups)
                found[needs, groups] = found.get((needs, groups), 0) | 1 << (offset + place)
            one.consumers = [(needs, groups, mask) for (needs, groups), mask in found.items()]
            one.everyone = sum(mask for _, _, mask in one.consumers)
            one.ascending = [
                sorted((dict(needs).get(at, 0), mask) for needs, _, mask in one.consumers)
                for at in range(len(one.available))
            ]
            self.pools[len(self.order)] = one
            self.order.append(number)
        self.start: tuple[Any, ...] = tuple(
            ((0,) * len(self.pools[at].available), tuple(sorted(self.pools[at].groups.items(), key=lambda kv: kv[0])))
            for at in range(len(self.order))
        )
        self.blocked_at_first = 0
        for at in range(len(self.order)):
            self.blocked_at_first |= self._blocked(at, self.start[at])

    def consumption(self, position: int) -> Any:
        """What tells consumers apart."""
        return self._consumption.get(position)

    def charged(self, state: tuple[Any, ...], blocked: int, position: int) -> tuple[tuple[Any, ...], int]:
        """The state and the blocked devices after the device at ``position`` was placed."""
        found = self._consumption.get(position)
        if found is None:
            return state, blocked
        at, needs, groups = found
        amounts = list(state[at][0])
        for index, amount in needs:
            amounts[index] += amount
        present = dict(state[at][1])
        for name, own in groups:
            present[name] = present[name] & own if name in present else own
        after = (tuple(amounts), tuple(sorted(present.items(), key=lambda item: item[0])))
        state = (*state[:at], after, *state[at + 1 :])
        return state, blocked & ~self.pools[at].everyone | self._blocked(at, after)

    def suffice(self, state: tuple[Any, ...], left: int, all_left: int, needed: int) -> bool:
        """Whether counters could serve ``needed`` devices of ``all_left``, of which ``left`` would be charged."""
        for at, pool in self.pools.items():
            charged = left & pool.everyone
            minimum = needed - (all_left & ~charged).bit_count()
            if minimum <= 1 or not charged:
                continue
            for index, limit in enumerate(pool.available):
                if not self._suffices(pool, index, limit - state[at][0][index], charged, minimum):
                    return False
        return True

    def _suffices(self, pool: _Pool, index: int, room: int, charged: int, minimum: int) -> bool:
        for amount, mask in pool.ascending[index]:
            taken = min((mask & charged).bit_count(), minimum)
            room -= taken * amount
            minimum -= taken
            if not minimum:
                break
        return room >= 0

    def _blocked(self, at: int, state: Any) -> int:
        pool = self.pools[at]
        known = pool.blocked.get(state)
        if known is None:
            known = pool.blocked[state] = self._compute(pool, state)
        return known

    def _compute(self, pool: _Pool, state: Any) -> int:
        amounts, groups = state
        room = [limit - amount for limit, amount in zip(pool.available, amounts, strict=True)]
        if any(amount < 0 for amount in room):
            return pool.everyone
        present = dict(groups)
        blocked = 0
        for needs, own, mask in pool.consumers:
            for index, amount in needs:
                if room[index] < amount:
                    blocked |= mask
                    break
            else:
                if own and not _admitted(present, own):
                    blocked |= mask
        return blocked


def _admitted(present: dict[str, frozenset[str]], own: Groups) -> bool:
    """Whether a device with groups ``own`` may join those that are ``present`` on the same counter sets."""
    return all(
        name not in present or (bool(present[name] & groups) if groups else not present[name]) for name, groups in own
    )
