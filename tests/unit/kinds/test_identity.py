"""What is known of an object is known of that very object, and of few at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.kinds.identity import LIMIT, KnownObjects, by_identity


class Thing:
    def __init__(self, number: int) -> None:
        self.number = number


@given(st.lists(st.tuples(st.integers(0, 2 * LIMIT), st.integers(0, 2)), max_size=6 * LIMIT))
def test_results_are_those_of_the_function_whatever_was_asked_before(asked: list[tuple[int, int]]) -> None:
    things = [Thing(number) for number in range(2 * LIMIT + 1)]

    @by_identity
    def added(one: Thing, other: Thing) -> int:
        return one.number + other.number

    for one, other in asked:
        assert added(things[one], things[other]) == one + other


def test_a_result_is_worked_out_once_for_an_object_and_anew_for_one_that_is_like_it() -> None:
    calls: list[int] = []

    @by_identity
    def noted(thing: Thing) -> Thing:
        calls.append(thing.number)
        return thing

    first, second = Thing(1), Thing(1)
    assert (noted(first), noted(first), noted(second)) == (first, first, second)
    assert calls == [1, 1]


def test_objects_that_are_gone_are_not_taken_for_others() -> None:
    @by_identity
    def number(thing: Thing) -> int:
        return thing.number

    assert [number(Thing(one)) for one in range(5 * LIMIT)] == list(range(5 * LIMIT))


def test_the_first_that_were_added_give_way() -> None:
    known, things = KnownObjects(), [Thing(number) for number in range(LIMIT + 1)]
    for thing in things:
        known.add(thing, things)
    assert [known.knows(thing, things) for thing in things] == [False, *[True] * LIMIT]
    assert not known.knows(things[-1])
