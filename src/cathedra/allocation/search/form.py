"""The form of a search: equal for nodes whose searches differ in nothing but the values that constraints compare.

Constraints ask whether values are equal, not what they are. Nodes of one hardware model often have PCIe roots, NUMA
nodes or serial numbers with names of their own, so that their node classes differ. If the names are replaced by numbers
in the order of the devices, their searches are the same, and a solution by positions holds for all of them.
"""

from __future__ import annotations

from collections.abc import Hashable

from cathedra.allocation.claims.problem import Problem
from cathedra.allocation.claims.requests import Constraint, RequestOption
from cathedra.allocation.claims.tables import Bases
from cathedra.allocation.search.masks import positions

__all__ = ["form_of"]


def form_of(problem: Problem, bases: Bases) -> Hashable | None:
    """Return the form of a search, or None if more than devices and equality of values decides it.

    More than that are counters, shares, lists of values, derived attributes, and devices on which a test may fail.
    """
    features = problem.features
    options = [choice.option for requests in problem.requests for request in requests for choice in request.choices]
    if problem.view.has_counters or features.list_type_attributes or any(bases.risky):
        return None
    if any(option.derived or bases.masks[option.number] & bases.shareable for option in options):
        return None
    choices = tuple(
        [
            (choice.count, choice.devices)
            for requests in problem.requests
            for request in requests
            for choice in request.choices
        ]
    )
    compared: dict[tuple[str, bool], tuple[Constraint, RequestOption, int]] = {}
    for option in options:
        for constraint in problem.plans[option.claim].constraints:
            if constraint.concerns(option):
                key = (constraint.attribute, constraint.distinct)
                before = compared[key][2] if key in compared else 0
                compared[key] = (constraint, option, before | bases.masks[option.number])
    return (
        tuple(bases.masks),
        choices,
        tuple([(key, _pattern(problem, *compared[key])) for key in sorted(compared)]),
    )


def _pattern(problem: Problem, constraint: Constraint, option: RequestOption, devices: int) -> tuple[object, ...]:
    """The values of these devices, numbered in their order. With mixed types, distinctAttribute depends on the type."""
    numbers: dict[object, int] = {}
    found: list[object] = []
    for position in positions(devices):
        value = problem.value(option, problem.devices[position], constraint)
        found.append(None if value is None else (value[0], numbers.setdefault(value, len(numbers))))
    return tuple(found)
