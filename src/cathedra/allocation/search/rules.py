"""Constraints for the fast search: which devices may still join, as a mask, given the values that are placed.

Values are equal or not, sets meet or not; which devices carry which value is known before the search. So a
constraint's state is small and hashable, and the devices it still admits are looked up.
"""

from __future__ import annotations

from typing import Any

from cathedra.allocation.checks.values import Value, constraint_value
from cathedra.allocation.features import Features
from cathedra.allocation.search.requests import Constraint, Option
from cathedra.allocation.supply.devices import DeviceRecord

__all__ = ["Rule"]


class Rule:
    """A constraint over the devices of one node. A state is None as long as no device is placed."""

    __slots__ = ("_admitted", "constraint", "devices", "everything", "lists", "masks", "mixed")

    def __init__(self, constraint: Constraint, devices: list[DeviceRecord], features: Features) -> None:
        self.constraint = constraint
        self.devices: list[Value | None] = [
            constraint_value(record.signature, constraint.attribute, features, distinct=constraint.distinct)
            for record in devices
        ]
        self.lists = features.list_type_attributes
        self.masks: dict[Value, int] = {}
        for position, value in enumerate(self.devices):
            if value is not None:
                self.masks[value] = self.masks.get(value, 0) | 1 << position
        self.everything = sum(self.masks.values())
        self.mixed = constraint.distinct and not self.lists and len({kind for kind, _ in self.masks}) > 1
        self._admitted: dict[Any, int] = {}

    def concerns(self, option: Option) -> bool:
        """Whether devices for ``option`` are subject to it."""
        return self.constraint.concerns(option)

    def admitted(self, state: Any) -> int:
        """The devices that may join in ``state``."""
        if state is None:
            return self.everything
        known = self._admitted.get(state)
        if known is None:
            known = self._admitted[state] = sum(
                mask for value, mask in self.masks.items() if self._may_join(state, value)
            )
        return known

    def joined(self, state: Any, position: int) -> Any:
        """The state after the device at ``position``, which is admitted, has joined."""
        value = self.devices[position]
        assert value is not None
        if self.constraint.distinct:
            added = frozenset((value[0], one) for one in _elements(value)) if self.lists else frozenset((value,))
            return added if state is None else state | added
        if state is None or not self.lists:
            return value
        return (value[0], state[1] & value[1])

    def values_in(self, mask: int) -> int:
        """How many different values the devices in ``mask`` have."""
        return sum(1 for one in self.masks.values() if one & mask)

    def group_of(self, mask: int, size: int) -> bool:
        """Whether some value is had by ``size`` devices of ``mask``."""
        return any((one & mask).bit_count() >= size for one in self.masks.values())

    def _may_join(self, state: Any, value: Value) -> bool:
        if self.constraint.distinct:
            if self.lists:
                return all((value[0], one) not in state for one in _elements(value))
            return value not in state
        if not self.lists:
            return bool(state == value)
        return state[0] == value[0] and not state[1].isdisjoint(_elements(value))


def _elements(value: Value) -> frozenset[object]:
    elements = value[1]
    assert isinstance(elements, frozenset)
    return elements
