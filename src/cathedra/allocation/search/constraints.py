"""Constraints for the fast search: the devices that may still be added, as a mask, given the values of placed devices.

Values are equal or not, and sets intersect or not. The devices of each value are known before the search. A
constraint's state is therefore small and hashable, and the devices that it admits are looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cathedra.allocation.checks.values import Value
from cathedra.allocation.claims.problem import Problem
from cathedra.allocation.claims.requests import Constraint, RequestOption
from cathedra.allocation.errors import FatalError
from cathedra.allocation.search.matching import positions
from cathedra.allocation.supply.caches import CacheSlot, LRUCache
from cathedra.allocation.supply.pools import NodeSupply


class _Spread:
    """The values of devices."""

    __slots__ = ("_by_element", "everything", "failing", "masks", "of")

    def __init__(self, problem: Problem, option: RequestOption, constraint: Constraint, candidates: int) -> None:
        self.of: dict[int, Value] = {}
        """Value of the attribute, by position of the device."""
        self.masks: dict[Value, int] = {}
        self.failing = 0
        """Devices on which the derived attribute cannot be computed. A search that reaches one fails."""
        for position in positions(candidates):
            try:
                value = problem.value(option, problem.devices[position], constraint)
            except FatalError:
                self.failing |= 1 << position
                continue
            if value is not None:
                self.of[position] = value
                self.masks[value] = self.masks.get(value, 0) | 1 << position
        self.everything = sum(self.masks.values())
        self._by_element: dict[tuple[str, object], int] | None = None

    @property
    def by_element(self) -> dict[tuple[str, object], int]:
        """If values are sets: type and element → the devices that have it."""
        if self._by_element is None:
            made = self._by_element = {}
            for value, mask in self.masks.items():
                for one in _elements(value):
                    made[value[0], one] = made.get((value[0], one), 0) | mask
        return self._by_element


_SPREADS: Final[CacheSlot[LRUCache[tuple[NodeSupply, object], _Spread]]] = CacheSlot(
    "values of many devices", lambda: LRUCache(_RECENT)
)
_RECENT: Final = 8
_MANY: Final = 256
"""Number of devices from which the values of all devices are cached, instead of those that are free in this search."""


def _spread(problem: Problem, option: RequestOption, constraint: Constraint, candidates: int) -> _Spread:
    # Values of expressions depend on the request, and few devices are computed faster than looked up.
    if option.derivation(constraint.attribute) or len(problem.devices) < _MANY:
        return _Spread(problem, option, constraint, candidates)
    every = (1 << len(problem.devices)) - 1
    return problem.supply.caches.of(_SPREADS).get(
        (problem.supply, (constraint.attribute, constraint.distinct, problem.features)),
        lambda: _Spread(problem, option, constraint, every),
    )


class Spreads:
    """The values of a node's devices for one search: constraints over the same attribute and devices share them."""

    __slots__ = ("_known", "_problem")

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: dict[tuple[str, bool, str, int], _Spread] = {}

    def of(self, option: RequestOption, constraint: Constraint, candidates: int) -> _Spread:
        """Return the values of ``candidates`` that ``option`` has for ``constraint``."""
        key = (constraint.attribute, constraint.distinct, option.derivation(constraint.attribute), candidates)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _spread(self._problem, option, constraint, candidates)
        return known


class _Values:
    """Values of devices for a constraint, by their own attributes or by one expression. Devices that cannot be
    allocated may be among them."""

    __slots__ = ("admitted", "everything", "failing", "masks", "of", "spread")

    def __init__(self, spread: _Spread) -> None:
        self.spread = spread
        self.of, self.masks = spread.of, spread.masks
        self.everything, self.failing = spread.everything, spread.failing
        self.admitted: dict[Any, int] = {}

    @property
    def by_element(self) -> Mapping[tuple[str, object], int]:
        """Return the element masks of the spread (`_Spread.by_element`)."""
        return self.spread.by_element


class NodeConstraint:
    """A constraint on the devices of one node. A `Restriction` whose state is None as long as no device is placed."""

    __slots__ = ("_values", "constraint", "first", "lists", "mixed", "sources")

    def __init__(
        self,
        constraint: Constraint,
        problem: Problem,
        options: Iterable[RequestOption],
        bases: list[int],
        spreads: Spreads | None = None,
    ) -> None:
        self.constraint = constraint
        self.first = None
        self.lists = problem.features.list_type_attributes
        self.sources: dict[str, int] = {}
        """Expression → devices on which it is evaluated; the empty one is the device's own attribute."""
        spreads = spreads or Spreads(problem)
        concerned = [option for option in options if constraint.concerns(option)]
        for option in concerned:
            source = option.derivation(constraint.attribute)
            # Requests with the same source of values share one table over the union of their devices.
            self.sources[source] = self.sources.get(source, 0) | bases[option.number]
        made: dict[str, _Values] = {}
        self._values: dict[int, _Values] = {}
        for option in concerned:
            source = option.derivation(constraint.attribute)
            if source not in made:
                made[source] = _Values(spreads.of(option, constraint, self.sources[source]))
            self._values[option.number] = made[source]
        self.mixed = constraint.distinct and not self.lists and len(_types(made.values())) > 1
        """The order of placements matters: a value of another type ends the comparison (spec: 10.4)."""

    def concerns(self, option: RequestOption) -> bool:
        """Return True if the constraint applies to devices of ``option``."""
        return option.number in self._values

    def failing(self, option: RequestOption) -> int:
        """Return the devices whose value cannot be computed for ``option``."""
        return self._values[option.number].failing

    def source(self, option: RequestOption) -> object:
        """Return a key of the values that ``option`` has, equal for options and constraints that share them."""
        return self._values[option.number].spread

    def carriers(self, option: RequestOption) -> Mapping[Any, int]:
        """Return the devices that have each value with ``option``; of lists, each element."""
        values = self._values[option.number]
        return values.by_element if self.lists else values.masks

    def open_values(self, state: Any) -> Iterable[Any]:
        """Return the keys of `carriers` of which matchAttribute still needs one; ``state`` is that of placed
        devices."""
        return [(state[0], one) for one in state[1]] if self.lists else (state,)

    def value(self, option: RequestOption, position: int) -> Value | None:
        """Return the value of a device with ``option``."""
        return self._values[option.number].of.get(position)

    def admitted(self, option: RequestOption, state: Any, left: int) -> int:
        """Return those of ``left`` that can be added for ``option``; all if the constraint does not apply to it."""
        values = self._values.get(option.number)
        return left if values is None else left & self._joining(values, state)

    def _joining(self, values: _Values, state: Any) -> int:
        if state is None:
            return values.everything
        known = values.admitted.get(state)
        if known is None:
            known = values.admitted[state] = self._compute(values, state)
        return known

    def _compute(self, values: _Values, state: Any) -> int:
        if self.mixed:
            kind, first, _ = state
            return sum(mask for value, mask in values.masks.items() if value[0] != kind or value not in first)
        if self.lists and self.constraint.distinct:
            return values.everything & ~_union(values.by_element, state)
        if self.lists:
            return _union(values.by_element, [(state[0], one) for one in _elements(state)])
        if self.constraint.distinct:
            return values.everything & ~_union(values.masks, state)
        return values.masks.get(state, 0)

    def after(self, option: RequestOption, state: Any, position: int) -> Any:
        """Return the state after the admitted device at ``position`` was added for ``option``."""
        values = self._values.get(option.number)
        if values is None:
            return state
        value = values.of[position]
        if not self.constraint.distinct:
            return value if state is None or not self.lists else (value[0], state[1] & value[1])
        if self.lists:
            added = frozenset((value[0], one) for one in _elements(value))
            return added if state is None else state | added
        if not self.mixed:
            return frozenset((value,)) if state is None else state | {value}
        # The first type, its values up to the first of another type, and whether that has come.
        if state is None:
            return value[0], frozenset((value,)), False
        kind, first, ended = state
        if value[0] != kind:
            return kind, first, True
        return state if ended else (kind, first | {value}, False)

    def suffices(self, option: RequestOption, state: Any, left: int, needed: int) -> bool:
        """Return False if no ``needed`` of the admitted devices ``left`` satisfy the constraint together. True may be
        wrong."""
        values = self._values.get(option.number)
        # Lists may overlap in several ways and mixed types depend on the order, so no cheap bound is certain.
        if values is None or self.lists or self.mixed:
            return True
        masks = values.masks
        if self.constraint.distinct:
            return sum(1 for one in masks.values() if one & left) >= needed
        # After a placement `admitted` has left only devices with the common value, so counting them suffices.
        return state is not None or needed < 2 or any((one & left).bit_count() >= needed for one in masks.values())


def _types(sources: Iterable[_Values]) -> set[str]:
    return {kind for values in sources for kind, _ in values.masks}


def _union(masks: Mapping[Any, int], keys: Iterable[Any]) -> int:
    union = 0
    for key in keys:
        union |= masks.get(key, 0)
    return union


def _elements(value: Value) -> frozenset[object]:
    elements = value[1]
    assert isinstance(elements, frozenset)
    return elements
