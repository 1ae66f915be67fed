"""Binding conditions, and node operations that a driver does without."""

from __future__ import annotations

import pytest

from cathedra.api.field import ErrorList, FieldPath
from cathedra.kinds.resource.binding import validate_binding_conditions, validate_skipped_operations
from tests.unit.kinds.objects import texts


def conditions(good: tuple[str, ...], bad: tuple[str, ...]) -> list[str]:
    errors = ErrorList()
    validate_binding_conditions(errors, FieldPath("d"), good, bad)
    return texts(errors)


def test_there_are_conditions_of_both_kinds_or_none() -> None:
    assert conditions((), ()) == []
    assert conditions(("a.b/Ready",), ("a.b/Failed",)) == []
    assert conditions(("Ready",), ()) == [
        "d.bindingFailureConditions: Invalid value: null: "
        "bindingFailureConditions are required to use bindingConditions"
    ]
    assert conditions((), ("Failed",)) == [
        "d.bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions"
    ]


def test_a_condition_cannot_be_good_and_bad() -> None:
    assert conditions(("A", "B"), ("B",)) == [
        'd.bindingFailureConditions[0]: Invalid value: "B": '
        "bindingFailureConditions must not overlap with bindingConditions"
    ]


def test_names_occur_once_and_four_times_at_most() -> None:
    assert conditions(("A", "A"), ("F",)) == ['d.bindingConditions[1]: Duplicate value: "A"']
    (found,) = conditions(tuple("ABCDE"), ("F",))
    assert found.startswith("d.bindingConditions: Too many: 5: must have at most 4 items")


@pytest.mark.parametrize(
    ("operations", "wanted"),
    [
        ((), []),
        (("*",), []),
        (("NodeUnprepareResources",), []),
        (("NodePrepareResources", "NodeUnprepareResources"), []),
        (("NodePrepareResources", "*"), []),
        (("NodePrepareResources",), ["d: Invalid value: "]),
        (("Reboot",), []),
    ],
)
def test_what_was_never_prepared_is_not_unprepared(operations: tuple[str, ...], wanted: list[str]) -> None:
    errors = ErrorList()
    validate_skipped_operations(errors, FieldPath("d"), operations)
    found = texts(errors)
    assert len(found) == len(wanted)
    assert all(one.startswith(start) for one, start in zip(found, wanted, strict=True))
