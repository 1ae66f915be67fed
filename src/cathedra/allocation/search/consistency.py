"""Joint bound on the constraints of a pod: domains of values, arc consistency and matchings.

A claim for 16 GPUs, each beside a NIC on the same PCIe root, has 16 ``matchAttribute`` constraints of two requests.
Judged one request at a time, every choice looks possible until the last NIC, so a depth-first search visits all orders
of the GPUs. Seen as a constraint problem, it is a matching of constraints with PCIe roots:

* The requests of one constraint form a *group*: their devices have one common value. The *domain* of a group holds the
  values of which every open request of the group has enough candidates. If a request belongs to several groups, each
  value that one domain loses narrows the others, until nothing changes (arc consistency).
* Groups compete for devices, so a value serves a limited number of groups. If the groups cannot all get values of
  their domains within these limits, the state fails (pigeonhole principle, decided by augmenting paths). A value of the
  current group that belongs to no such matching is skipped.

The bound is a relaxation: a state is rejected only if no assignment exists, and a device is skipped only if no
assignment uses it. What the relaxation leaves out (shares, admin access, derived values) makes it weaker, never wrong.
So the search visits fewer states and finds the same assignment first (docs/spec/allocation.md §15.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cathedra.allocation.claims.problem import Choice, RequestOnNode
from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.search.budget import Meter
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.constraints import NodeConstraint
from cathedra.allocation.search.matching import GroupMatching, bits, mask_of, matchable
from cathedra.allocation.search.state import State

_FAMILIES: Final = 6
"""Matchings per attribute and state. Any selection of them is a valid bound."""

_REMEMBERED: Final = 4_096
"""Entries of a memo of one search. A search that ends early makes a few hundred."""
_PER_STATE: Final = 8
"""Open requests that cost as much as one state of the search, so that a budget of states means about the same time."""


class _Table:
    """The devices of each value, for options with one source of values; values are numbered bits."""

    __slots__ = ("_supported", "_united", "rows")

    def __init__(self, rows: dict[int, int]) -> None:
        self.rows = rows
        """Mask of the devices that have each value."""
        self._supported: dict[tuple[int, int], int] = {}
        self._united: dict[int, int] = {}

    def supported(self, candidates: int, count: int) -> int:
        """Return the values that at least ``count`` of the candidates have."""
        key = (candidates, count)
        known = self._supported.get(key)
        if known is None:
            known = 0
            for value, devices in self.rows.items():
                if (devices & candidates).bit_count() >= count:
                    known |= value
            if len(self._supported) >= _REMEMBERED:
                self._supported.clear()
            self._supported[key] = known
        return known

    def devices(self, values: int) -> int:
        """Return the devices that have one of ``values``."""
        known = self._united.get(values)
        if known is None:
            known = 0
            for value, devices in self.rows.items():
                if value & values:
                    known |= devices
            if len(self._united) >= _REMEMBERED:
                self._united.clear()
            self._united[values] = known
        return known


class _Attribute:
    """The values of one attribute on the node, numbered in the order in which they are first seen."""

    __slots__ = ("_tables", "_values", "name", "own")

    def __init__(self, name: str) -> None:
        self.name = name
        self.own: dict[int, int] = {}
        """Value → devices that have it as an attribute of their own. Derived values are left out."""
        self._values: dict[Any, int] = {}
        self._tables: dict[object, _Table] = {}

    def value(self, key: Any) -> int:
        """Return the bit of the value; a new value gets the next one."""
        return self._values.setdefault(key, 1 << len(self._values))

    def table(self, rule: NodeConstraint, option: RequestOption) -> _Table:
        """Return the devices of each value that ``option`` has for ``rule``."""
        source = rule.source(option)
        known = self._tables.get(source)
        if known is None:
            rows = {self.value(key): devices for key, devices in rule.carriers(option).items()}
            known = self._tables[source] = _Table(rows)
            if not option.derivation(self.name):
                for value, devices in rows.items():
                    self.own[value] = self.own.get(value, 0) | devices
        return known


class _Group:
    """Constraints of one claim on one attribute whose devices all have the same value."""

    __slots__ = ("attribute", "claim", "rules")

    def __init__(self, claim: int, attribute: _Attribute, rules: dict[int, NodeConstraint]) -> None:
        self.claim, self.attribute, self.rules = claim, attribute, rules


class _Way(NamedTuple):
    """One choice of a request."""

    option: RequestOption
    needed: int
    devices: int
    """For All: its devices."""
    valued: int
    """Devices that pass all fixed tests and have a value for each constraint."""
    tables: tuple[_Table, ...]
    """One for each group of the request."""


class _RequestWays(NamedTuple):
    """A request, and the groups to which it belongs with each of its choices."""

    ways: tuple[_Way, ...]
    groups: tuple[_Group, ...]
    kinds: tuple[tuple[int, ...], ...]
    """For each group the kinds of devices that the request takes in it, as places in `_kinds_of`."""


class _Trial(NamedTuple):
    """A choice in a state: its candidates, and the number of devices that it still needs."""

    way: _Way
    candidates: int
    needed: int


class Consistency:
    """The bound for one search.

    ``end_of`` returns where looking ahead from a request must end. Requests are counted over all claims.
    """

    __slots__ = ("_candidates", "_end_of", "_first", "_groups_of", "_kinds", "_meter", "_pinned", "_requests")

    def __init__(self, candidates: Candidates, end_of: Callable[[int], int], meter: Meter) -> None:
        self._candidates = candidates
        self._meter = meter
        self._end_of = end_of
        claims = candidates.problem.requests
        attributes: dict[str, _Attribute] = {}
        self._groups_of: list[dict[int, _Group]] = []
        self._first: list[int] = []
        """Claim → number of its first request."""
        count = 0
        for claim, requests in enumerate(claims):
            self._first.append(count)
            # Requests behind an error bind nothing: the search may end with the error before it reaches them.
            sure = requests[: max(0, end_of(0) - count)]
            self._groups_of.append(self._grouped(claim, sure, attributes))
            count += len(requests)
        options = [choice.option for claim in claims for request in claim for choice in request.choices]
        self._kinds = _kinds_of([candidates.base(option) for option in options if self._is_exclusive(option)])
        self._requests = [self._request(request.choices) for claim in claims for request in claim]
        self._pinned: dict[tuple[int, int], _RequestWays] = {}
        """Number of a request and its choice → the request with that choice alone."""

    def narrow(self, choice: Choice, needed: int, left: int, state: State) -> int:
        """Return the devices of ``left`` that may be the next for ``choice``, which still needs ``needed``.

        If the state fails with each of them, return 0.

        Raises:
            BudgetExceeded: the search takes too long.
        """
        option = choice.option
        first = self._first[option.claim] + option.request
        end = self._end_of(first)
        if end <= first:
            return left
        # The bound costs as much as several states, and is charged so, or the limit of states would not bound the time.
        for _ in range(first, end, _PER_STATE):
            self._meter.step()
        current = self._pinned.get((first, option.sub))
        # The current request has chosen an alternative, while later ones are open; the former is prepared once per
        # choice.
        if current is None:
            current = self._pinned[first, option.sub] = self._request((choice,))
        evaluation = _StateBound(self._candidates, self._kinds, option.claim, state)
        return evaluation.narrow(current, needed, left, self._requests[first + 1 : end])

    def _grouped(
        self, claim: int, requests: Sequence[RequestOnNode], attributes: dict[str, _Attribute]
    ) -> dict[int, _Group]:
        """Group the constraints of a claim: place of the constraint → group.

        Constraints over one attribute that share one of ``requests`` are one group, since the request has one value.
        With lists it may have several, so there each constraint is a group of its own.
        """
        group_of: dict[int, _Group] = {}
        for place, rule in enumerate(self._candidates.rules[claim]):
            if _binds(rule, requests):
                name = rule.constraint.attribute
                attribute = attributes.setdefault(name, _Attribute(name))
                group_of[place] = _Group(claim, attribute, {place: rule})
        for request in requests:
            # A choice that needs no device ties nothing together.
            if any(choice.count < 1 for choice in request.choices):
                continue
            shared: dict[_Attribute, _Group] = {}
            for place in list(group_of):
                group = group_of[place]
                rule = group.rules[place]
                if rule.lists or not _concerns(rule, request):
                    continue
                known = shared.setdefault(group.attribute, group)
                if known is not group:
                    # Two constraints with a common request have a common value, so their domains are one.
                    known.rules.update(group.rules)
                    group_of.update(dict.fromkeys(group.rules, known))
        return group_of

    def _is_exclusive(self, option: RequestOption) -> bool:
        """Return True if each device that the option may have serves it alone."""
        return not option.admin and not self._candidates.base(option) & self._candidates.shareable

    def _request(self, choices: Sequence[Choice]) -> _RequestWays:
        """Return a request with these choices, and with the groups that all of them belong to."""
        if not choices:
            return _RequestWays((), (), ())
        groups_of = self._groups_of[choices[0].option.claim]
        found: list[dict[_Group, NodeConstraint]] = []
        for choice in choices:
            concerning = self._candidates.concerning(choice.option)
            found.append({groups_of[place]: rule for place, rule in concerning if place in groups_of})
        # Only groups that bind with every choice: a request could otherwise avoid the constraint by another
        # alternative.
        groups = tuple([group for group in found[0] if all(group in rules for rules in found)])
        ways = tuple(
            [
                self._way(choice, tuple([group.attribute.table(rules[group], choice.option) for group in groups]))
                for choice, rules in zip(choices, found, strict=True)
            ]
        )
        return _RequestWays(ways, groups, tuple([self._kinds_in(group, groups, ways) for group in groups]))

    def _way(self, choice: Choice, tables: tuple[_Table, ...]) -> _Way:
        option = choice.option
        valued = self._candidates.base(option)
        for _, rule in self._candidates.concerning(option):
            valued = rule.admitted(option, None, valued)
        return _Way(option, choice.count, mask_of(choice.devices or ()), valued, tables)

    def _kinds_in(self, group: _Group, groups: tuple[_Group, ...], ways: tuple[_Way, ...]) -> tuple[int, ...]:
        """Return the places of the kinds from which every choice takes its devices.

        Return an empty tuple if another group counts them for the same attribute, or if they may also serve others.
        """
        attribute = group.attribute
        # Two groups over one attribute may have different values, so their devices cannot be added up.
        if sum(other.attribute is attribute for other in groups) > 1:
            return ()
        if not all(self._is_exclusive(way.option) and not way.option.derivation(attribute.name) for way in ways):
            return ()
        bases = [self._candidates.base(way.option) for way in ways]
        return tuple([at for at, kind in enumerate(self._kinds) if not any(base & ~kind for base in bases)])


def _binds(rule: NodeConstraint, requests: Sequence[RequestOnNode]) -> bool:
    """Decide if the devices of a constraint have one value in common.

    With lists, a single device needs no value: an empty list is enough (docs/spec/allocation.md §10.3).
    """
    if rule.constraint.distinct:
        return False
    if not rule.lists:
        return True
    sure = [
        min((choice.count for choice in request.choices), default=0) for request in requests if _concerns(rule, request)
    ]
    return sum(sure) > 1


def _concerns(rule: NodeConstraint, request: RequestOnNode) -> bool:
    """Return True if the constraint applies to the request with each of its alternatives."""
    return all(rule.concerns(choice.option) for choice in request.choices)


def _kinds_of(masks: Iterable[int]) -> tuple[int, ...]:
    """Return the kinds of devices for which requests compete: the different masks, and the unions of those that
    overlap."""
    kinds = dict.fromkeys(masks)
    unions: list[int] = []
    for mask in kinds:
        overlapping = [union for union in unions if union & mask]
        joined = mask
        for union in overlapping:
            joined |= union
        unions = [union for union in unions if union not in overlapping]
        unions.append(joined)
    return tuple(dict.fromkeys([*kinds, *unions]))


class _StateBound:
    """The bound in one state."""

    __slots__ = (
        "_any_full",
        "_blocked",
        "_candidates",
        "_claim",
        "_domains",
        "_kinds",
        "_needs",
        "_state",
        "_states",
        "_supplies",
    )

    def __init__(self, candidates: Candidates, kinds: Sequence[int], claim: int, state: State) -> None:
        self._candidates = candidates
        self._claim, self._state = claim, state
        self._states = {claim: state}
        self._blocked = state.used if state.counters is None else state.used | state.counters.blocked
        self._kinds = [kind & ~self._blocked for kind in kinds]
        self._domains: dict[_Group, int] = {}
        self._any_full = candidates.counters is not None
        """True if a value may be full for a group although each of its requests has enough devices."""
        self._needs: dict[_Group, dict[int, int]] = {}
        """Group → kind → how many of its devices the open requests of the group take."""
        self._supplies: dict[int, int] = {}
        """Devices → the number of them that fit into the counters together."""

    def narrow(self, current: _RequestWays, needed: int, left: int, others: Sequence[_RequestWays]) -> int:
        """Return the candidates that `Consistency.narrow` leaves."""
        trials: list[tuple[_RequestWays, list[_Trial]]] = [(current, [_Trial(current.ways[0], left, needed)])]
        for request in others:
            found = self._trials(request)
            # A request without any choice left: the state cannot lead to a solution.
            if not found:
                return 0
            # A request that may be satisfied without a device restricts nothing.
            if all(trial.needed for trial in found):
                trials.append((request, found))
        if not all(self._enter(request, found) for request, found in trials if request.groups):
            return 0
        if not self._propagate([one for one in trials if len(one[0].groups) > 1]):
            return 0
        if not self._compete(current):
            return 0
        for group, table in zip(current.groups, current.ways[0].tables, strict=True):
            left &= table.devices(self._domains[group])
        return left if self._devices_suffice(trials) else 0

    def _trials(self, request: _RequestWays) -> list[_Trial]:
        """Return a trial for each choice of a request that has enough candidates in this state."""
        found = []
        for way in request.ways:
            candidates = self._candidates_of(way)
            if not way.devices:
                if candidates.bit_count() >= way.needed:
                    found.append(_Trial(way, candidates, way.needed))
            elif not way.devices & ~candidates:
                found.append(_Trial(way, way.devices, way.needed))
        return found

    def _candidates_of(self, way: _Way) -> int:
        option, claim = way.option, way.option.claim
        state = self._states.get(claim)
        if state is None:
            state = self._states[claim] = self._state.for_next_claim(len(self._candidates.rules[claim]))
        # Admin access and shares ignore devices in use, so the short form below would exclude too much.
        if option.admin or state.shares.used or self._candidates.shareable & way.valued:
            return self._candidates.of(option, state)
        left = way.valued & ~self._blocked
        if claim == self._claim:
            for place, rule in self._candidates.concerning(option):
                if state.constraints[place] is not None:
                    left = rule.admitted(option, state.constraints[place], left)
        return left

    # --- domains

    def _enter(self, request: _RequestWays, trials: list[_Trial]) -> bool:
        """Narrow the domains of a request's groups to values of which it has enough devices, and add its needs."""
        least = min([trial.needed for trial in trials])
        for place, (group, kinds) in enumerate(zip(request.groups, request.kinds, strict=True)):
            if not self._restrict(group, place, trials):
                return False
            needs = self._needs.setdefault(group, {})
            for kind in kinds:
                self._any_full = self._any_full or kind in needs
                needs[kind] = needs.get(kind, 0) + least
        return True

    def _restrict(self, group: _Group, place: int, trials: list[_Trial]) -> bool:
        """Remove the values of a domain of which no choice has enough devices. Return False if none is left."""
        domain = self._domains.get(group)
        if domain is None:
            domain = self._placed_values(group)
        supported = 0
        for way, candidates, needed in trials:
            # The union over the choices, because any of them may be taken.
            supported |= way.tables[place].supported(candidates, needed)
        self._domains[group] = domain = domain & supported
        return domain != 0

    def _placed_values(self, group: _Group) -> int:
        """Return the values that earlier placements leave to a group: all values if it has no placements."""
        # All bits set: every value is possible.
        domain = -1
        # Constraints of later claims have no placements yet.
        if group.claim != self._claim:
            return domain
        for place, rule in group.rules.items():
            state = self._state.constraints[place]
            if state is not None:
                open_values = 0
                for key in rule.open_values(state):
                    open_values |= group.attribute.value(key)
                domain &= open_values
        return domain

    def _propagate(self, linked: list[tuple[_RequestWays, list[_Trial]]]) -> bool:
        """Narrow the domains of groups that share requests, until nothing changes; False if one becomes empty."""
        changed = bool(linked)
        while changed:
            changed = False
            for request, trials in linked:
                before = [self._domains[group] for group in request.groups]
                for at, (way, candidates, needed) in enumerate(trials):
                    for domain, table in zip(before, way.tables, strict=True):
                        candidates &= table.devices(domain)
                    trials[at] = _Trial(way, candidates, needed)
                if not all(self._restrict(group, place, trials) for place, group in enumerate(request.groups)):
                    return False
                changed = changed or before != [self._domains[group] for group in request.groups]
        return True

    # --- competition for values

    def _compete(self, current: _RequestWays) -> bool:
        """Narrow the domains of the current request's groups to values in some matching; False if there is none."""
        by_attribute: dict[_Attribute, list[_Group]] = {}
        for group in self._domains:
            by_attribute.setdefault(group.attribute, []).append(group)
        return all(self._share_out(attribute, groups, current) for attribute, groups in by_attribute.items())

    def _share_out(self, attribute: _Attribute, groups: list[_Group], current: _RequestWays) -> bool:
        taken: dict[tuple[int, int], int] = {}
        free = self._settle(attribute, groups, taken)
        if free is None:
            return False
        if all(self._domains[group].bit_count() >= len(free) for group in free):
            # Each has a value of its own, and any value leaves the others enough.
            return True
        for need in _families([self._needs[group] for group in free]):
            members = [group for group in free if _covers(self._needs[group], need)]
            room: dict[int, int] = {}
            for value in bits(self._union(members)):
                room[value] = self._room(attribute, value, need, taken)
            matching = GroupMatching([self._domains[group] for group in members], room)
            if not matching.is_complete:
                return False
            for group in current.groups:
                if group in members:
                    self._domains[group] = matching.values_of(members.index(group))
        return True

    def _union(self, groups: list[_Group]) -> int:
        union = 0
        for group in groups:
            union |= self._domains[group]
        return union

    def _settle(
        self, attribute: _Attribute, groups: list[_Group], taken: dict[tuple[int, int], int]
    ) -> list[_Group] | None:
        """Give each group with one value left the devices it needs, which may leave others with one value.

        Return the groups that still have a choice, or None if there is not enough for all. ``taken`` receives how many
        devices of a kind and value are given away.
        """
        free = list(groups)
        while True:
            single = [group for group in free if not self._domains[group] & self._domains[group] - 1]
            free = [group for group in free if self._domains[group] & self._domains[group] - 1]
            for group in single:
                value = self._domains[group]
                for kind, count in self._needs[group].items():
                    taken[kind, value] = taken.get((kind, value), 0) + count
                    if taken[kind, value] > self._supply(attribute, kind, value):
                        return None
            if not self._drop_full_values(attribute, free, taken):
                return None
            if all(self._domains[group] & self._domains[group] - 1 for group in free):
                return free

    def _drop_full_values(
        self, attribute: _Attribute, groups: list[_Group], taken: Mapping[tuple[int, int], int]
    ) -> bool:
        """Remove the values that cannot serve one more group. Return False if a domain becomes empty."""
        alike: dict[tuple[tuple[int, int], ...], list[_Group]] = {}
        for group in groups:
            alike.setdefault(tuple(sorted(self._needs[group].items())), []).append(group)
        for members in alike.values():
            needs = self._needs[members[0]]
            full = 0
            for value in bits(self._union(members)) if self._any_full else {value for _, value in taken}:
                if not self._room(attribute, value, needs, taken):
                    full |= value
            for group in members if full else ():
                self._domains[group] &= ~full
                if not self._domains[group]:
                    return False
        return True

    def _room(
        self, attribute: _Attribute, value: int, need: Mapping[int, int], taken: Mapping[tuple[int, int], int]
    ) -> int:
        """Return the number of groups with that need that the value can serve at most."""
        return min(
            [
                (self._supply(attribute, kind, value) - taken.get((kind, value), 0)) // count
                for kind, count in need.items()
            ],
            default=_UNBOUNDED,
        )

    def _supply(self, attribute: _Attribute, kind: int, value: int) -> int:
        """Return the number of devices of a kind that have the value and can be placed together, at most."""
        devices = self._kinds[kind] & attribute.own.get(value, 0)
        counters = self._candidates.counters
        if counters is None or self._state.counters is None:
            return devices.bit_count()
        known = self._supplies.get(devices)
        if known is None:
            known = self._supplies[devices] = counters.most(self._state.counters, devices)
        return known

    # --- competition for devices

    def _devices_suffice(self, trials: list[tuple[_RequestWays, list[_Trial]]]) -> bool:
        """Return True if all requests can get devices of their own with values of their groups' domains."""
        units: list[int] = []
        shareable = self._candidates.shareable
        for request, found in trials:
            if any(trial.way.option.admin for trial in found):
                continue
            reach = 0
            for way, candidates, _ in found:
                for group, table in zip(request.groups, way.tables, strict=True):
                    candidates &= table.devices(self._domains[group])
                reach |= candidates
            exclusive = min([trial.needed for trial in found]) - (reach & shareable).bit_count()
            units.extend([reach & ~shareable] * exclusive)
        return matchable(units)


_UNBOUNDED: Final = 1 << 30


def _families(needs: Sequence[Mapping[int, int]]) -> list[dict[int, int]]:
    """Return the needs for which a matching is worth its cost: those of the groups, and the least need of all
    groups."""
    if not needs:
        return []
    common = dict(needs[0])
    for need in needs[1:]:
        common = {kind: min(count, need[kind]) for kind, count in common.items() if kind in need}
    found = {tuple(sorted(need.items())): dict(need) for need in (common, *needs) if need}
    return list(found.values())[:_FAMILIES]


def _covers(needs: Mapping[int, int], family: Mapping[int, int]) -> bool:
    return all(needs.get(kind, 0) >= count for kind, count in family.items())
