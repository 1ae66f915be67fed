"""What is known of an object is known of that very object, and of few at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Container
from cathedra.kinds.identity import (
    LARGEST,
    LARGEST_KNOWN,
    LIMIT,
    MOST_VALUES,
    KnownObjects,
    KnownValues,
    Likeness,
    by_identity,
    by_json,
    forget_large,
)
from tests.requirements import with_memos

pytestmark = with_memos


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


@given(st.lists(st.tuples(st.integers(0, 2 * LIMIT), st.booleans()), max_size=6 * LIMIT))
def test_equal_objects_get_the_result_of_the_function_and_other_objects_theirs(asked: list[tuple[int, bool]]) -> None:
    @by_json
    def named(one: Container) -> tuple[str, str]:
        return one.name, one.image

    for number, tagged in asked:
        image = "i:1" if tagged else "i"
        one, other = (Container(name=str(number), image=image) for _ in range(2))
        assert named(one) == (str(number), image)
        assert named(one) is named(other)


def test_what_is_large_is_worked_out_each_time() -> None:
    calls: list[int] = []

    @by_json
    def length(one: Container) -> int:
        calls.append(len(one.image))
        return calls[-1]

    for image in ("i", "i", "i" * LARGEST, "i" * LARGEST):
        assert length(Container(image=image)) == len(image)
    assert calls == [1, LARGEST, LARGEST]


def test_objects_are_alike_that_were_made_from_one_by_the_same_change() -> None:
    alike, origin, change = Likeness(), Thing(0), Thing(1)
    first, second, other, further = (Thing(number) for number in range(4))
    for made in (first, second):
        alike.follow(origin, made, change)
    alike.follow(origin, other, Thing(1))
    alike.follow(second, further)
    assert alike.pattern(first) is alike.pattern(second)
    assert len({alike.pattern(one) for one in (origin, first, other, further)}) == 4


def test_an_object_that_is_like_no_other_any_more_stands_for_itself() -> None:
    alike, things = Likeness(), [Thing(number) for number in range(LIMIT + 1)]
    assert alike.pattern(things[0]) is things[0]
    for thing in things:
        alike.note(thing, alike)
    assert alike.pattern(things[0]) is things[0]
    assert alike.pattern(things[-1]) is alike


def test_values_are_known_by_what_they_say_and_few_at_a_time() -> None:
    known = KnownValues()
    known.note("a", ("b", 1))
    assert "a" in known
    assert ("b", 1) in known
    known.note(*range(MOST_VALUES - 1))
    assert "a" not in known
    assert len(known) == MOST_VALUES - 1
    known.note(*range(MOST_VALUES + 1))
    assert not known


def test_nothing_known_outlasts_the_next_large_object() -> None:
    calls: list[int] = []

    @by_identity
    def number(one: Thing) -> int:
        calls.append(one.number)
        return one.number

    thing, known, likeness = Thing(1), KnownObjects(), Likeness()
    number(thing)
    known.add(thing)
    likeness.note(thing, "pattern")
    forget_large(LARGEST_KNOWN)
    assert (number(thing), known.knows(thing), likeness.pattern(thing)) == (1, True, "pattern")
    assert calls == [1]
    forget_large(LARGEST_KNOWN + 1)
    assert (number(thing), known.knows(thing), likeness.pattern(thing)) == (1, False, thing)
    assert calls == [1, 1]
