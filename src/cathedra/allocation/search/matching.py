"""Bipartite matchings by augmenting paths: units with devices, groups with values.

Sets are masks. Paths may be as long as there are units, so nothing here is recursive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence


def matchable(units: list[int]) -> bool:
    """Return True if every unit can get a device of its own from its mask (Kuhn's algorithm)."""
    if len(units) < 2:
        return True
    owner: dict[int, int] = {}
    taken = 0
    for unit in sorted(range(len(units)), key=lambda unit: units[unit].bit_count()):
        free = units[unit] & ~taken
        if free:
            bit = free & -free
            owner[bit] = unit
        else:
            bit = _serve(unit, units, owner, taken)
            if not bit:
                return False
        taken |= bit
    return True


def _serve(first: int, units: list[int], owner: dict[int, int], taken: int) -> int:
    """Give ``first`` a device, and move others along an augmenting path if need be.

    Return the device that was free before, or 0 if there is no such path.
    """
    seen = 0
    path = [first]
    """Units that must be moved, each to make room for the one before it."""
    wanted: list[int] = []
    """The devices that those before the last unit of the path are waiting for."""
    while path:
        left = units[path[-1]] & ~seen
        if not left:
            path.pop()
            if wanted:
                wanted.pop()
            continue
        free = left & ~taken
        bit = free & -free if free else left & -left
        seen |= bit
        wanted.append(bit)
        if free:
            owner.update(zip(wanted, path, strict=True))
            return bit
        path.append(owner[bit])
    return 0


class GroupMatching:
    """A matching of groups with values, where a value has room for several groups.

    ``domains`` are the values of each group, ``room`` how many groups each value can take.
    """

    __slots__ = ("_domains", "_members", "_reach", "_spare", "_value_of", "is_complete", "room")

    def __init__(self, domains: Sequence[int], room: Mapping[int, int]) -> None:
        self.room = room
        self._domains = domains
        self._value_of: list[int] = [0] * len(domains)
        self._members: dict[int, list[int]] = {}
        self._spare = sum([value for value, places in room.items() if places > 0])
        self.is_complete = self._is_uniform() or all(map(self._match, self._tightest_first()))
        """Return True if all groups get a value."""

    def values_of(self, group: int) -> int:
        """Return the values that the group has in some matching of all groups."""
        if not self._members:
            return self._domains[group] & self._spare
        reach = self._spare | self._value_of[group]
        before = 0
        while reach != before:
            before = reach
            for value, members in self._members.items():
                if not value & reach and any(self._domains[member] & reach for member in members):
                    reach |= value
        return self._domains[group] & reach

    def _is_uniform(self) -> bool:
        """Return True if all groups have the same domain and it has room for all: then no paths are needed."""
        first = self._domains[0] if self._domains else 0
        if any(domain != first for domain in self._domains):
            return False
        total = sum([places for value, places in self.room.items() if value & first and places > 0])
        return total >= len(self._domains)

    def _tightest_first(self) -> list[int]:
        return sorted(range(len(self._domains)), key=lambda group: self._domains[group].bit_count())

    def _match(self, first: int) -> bool:
        """Give a group a value, and move others along an augmenting path if need be."""
        seen = 0
        queue = [first]
        mover: dict[int, int] = {}
        """Value → group that would move to it if one of its members left."""
        for group in queue:
            free = self._domains[group] & ~seen
            open_values = free & self._spare
            if open_values:
                self._move(group, open_values & -open_values, mover)
                return True
            seen |= free
            for value in bits(free):
                mover[value] = group
                queue.extend(self._members.get(value, ()))
        return False

    def _move(self, group: int, value: int, mover: Mapping[int, int]) -> None:
        while True:
            before = self._value_of[group]
            self._value_of[group] = value
            members = self._members.setdefault(value, [])
            members.append(group)
            if len(members) >= self.room[value]:
                self._spare &= ~value
            if not before:
                return
            self._members[before].remove(group)
            # The place that becomes free goes to the group that waits for it, so the value stays full.
            value, group = before, mover[before]


# --- masks


def positions(mask: int) -> Iterator[int]:
    """Yield the positions in ``mask``, in ascending order."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def bits(mask: int) -> Iterator[int]:
    """Yield each position of ``mask`` as a mask of its own, in ascending order."""
    while mask:
        yield mask & -mask
        mask &= mask - 1


def mask_of(members: Iterable[int]) -> int:
    """Return the mask with these positions."""
    mask = 0
    for position in members:
        mask |= 1 << position
    return mask
