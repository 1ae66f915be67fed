"""Refusals: reasons that are computed when read, and what they call the obstacle."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation import Refusal, allocate
from cathedra.allocation.refusal import ConstraintReason, RefusalExplanation, RequestReason
from tests.unit.allocation.manifests import CLAIM, CLUSTER

TESTS = {
    "in_reach": "reach",
    "bound": "binding conditions",
    "class_passed": "class",
    "selected": "selectors",
    "on_node": "node selection",
    "free": "allocated",
    "operable": "node operations",
    "tolerated": "taints",
    "with_capacity": "capacity",
    "with_counters": "counters",
    "constraint_values": "constraint attributes",
}


def reason(wanted: int = 1, **values: Any) -> RequestReason:
    """Nine devices at every test, except for ``values``."""
    counts = dict.fromkeys(TESTS, 9)
    none: dict[str, Any] = {"selectors": (), "holders": {}, "taints": {}, "constraints": (), "fits_alone": False}
    return RequestReason(claim="claim ns/k", request="r", wanted=wanted, **{**counts, **none, **values})


def constraint(together: int, *, decisive: bool | None = True) -> ConstraintReason:
    return ConstraintReason("matchAttribute", "drv/numa", (), 0, {}, together, decisive)


@pytest.mark.parametrize(("field", "obstacle"), TESTS.items())
def test_the_obstacle_is_the_first_test_that_leaves_too_few(field: str, obstacle: str) -> None:
    later = list(TESTS)[list(TESTS).index(field) :]
    found = reason(2, **dict.fromkeys(later, 1))
    assert found.obstacle == obstacle
    assert reason(1, **dict.fromkeys(later, 1)).obstacle == "combination"


def test_for_all_devices_one_must_be_left() -> None:
    assert reason(0, free=0).obstacle == "allocated"
    assert reason(0).obstacle == "combination"


def test_where_devices_are_enough_they_cannot_be_together_or_are_needed_elsewhere() -> None:
    assert reason(3, constraints=(constraint(2),)).obstacle == "constraint"
    assert reason(2, constraints=(constraint(2),)).obstacle == "combination"
    assert reason(3, constraints=(constraint(2),), fits_alone=True).obstacle == "other requests"
    assert reason(3, fits_alone=None).obstacle == "combination"


def test_a_reason_tells_only_tests_that_turned_devices_away() -> None:
    assert str(reason(10)) == "claim ns/k, request r: 10 wanted, 9 in reach"
    found = reason(5, free=4, operable=4, tolerated=4, with_capacity=3, with_counters=3, constraint_values=3)
    assert str(found) == "claim ns/k, request r: 5 wanted, 9 in reach, 4 free, 3 with capacity"


@pytest.mark.parametrize(
    ("values", "end"),
    [
        ({"constraints": (constraint(2), constraint(1))}, "of which only 1 satisfy matchAttribute drv/numa together"),
        ({"fits_alone": True}, "but other requests need them"),
        (
            {"fits_alone": True, "constraints": (constraint(9),)},
            "but other requests need them under matchAttribute drv/numa",
        ),
        ({}, "but no combination satisfies all requests together"),
        ({"constraints": (constraint(9),)}, "but no combination satisfies matchAttribute drv/numa"),
        ({"constraints": (constraint(9, decisive=None),)}, "but no combination satisfies all requests together"),
    ],
)
def test_a_reason_ends_with_what_the_devices_left_lack(values: dict[str, Any], end: str) -> None:
    assert str(reason(3, **values)) == f"claim ns/k, request r: 3 wanted, 9 in reach, {end}"


def test_reasons_are_computed_once_and_only_when_they_are_read() -> None:
    computed = []

    def explain() -> RefusalExplanation:
        computed.append(1)
        return RefusalExplanation((reason(),), fits_when_free=True)

    refusal = Refusal("n", explain)
    assert (refusal.stopped, repr(refusal), computed) == (False, "Refusal('n', states=None)", [])
    assert refusal.reasons == (reason(),)
    assert refusal.fits_when_free
    assert computed == [1]


def test_a_search_that_was_stopped_says_so_and_explains_nothing() -> None:
    def explain() -> RefusalExplanation:
        raise AssertionError("nothing is known")

    refusal = Refusal("n", explain, 7)
    assert refusal.stopped
    assert str(refusal) == "n: stopped after 7 states"


def test_a_refusal_can_be_written_as_json() -> None:
    answer = allocate("n1", [CLAIM, CLAIM, CLAIM], CLUSTER)
    assert isinstance(answer, Refusal)
    said = answer.to_dict()
    assert (said["kind"], said["node"], said["stopped"]) == ("Refusal", "n1", False)
    assert said["requests"][0]["inReach"] == 2
    assert said["requests"][0]["obstacle"] == answer.reasons[0].obstacle
    assert said["requests"][0]["text"] == str(answer.reasons[0])
    assert said["text"] == str(answer)
