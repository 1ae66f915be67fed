"""Changes since a mark."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation.supply.snapshots import MOST_CHANGES, Changelog, SharedMap


def test_a_later_mark_tells_what_happened_after_an_earlier_one() -> None:
    changelog: Changelog[str] = Changelog()
    changelog.note("before")
    first = changelog.mark()
    changelog.note("a")
    changelog.note("b")
    changelog.note("a")
    second = changelog.mark()
    changelog.note("after")
    assert second.since(first) == {"a", "b"}
    assert first.since(first) == set()


def test_an_earlier_mark_does_not_know_the_future() -> None:
    changelog: Changelog[str] = Changelog()
    first = changelog.mark()
    changelog.note("a")
    assert first.since(changelog.mark()) is None


def test_marks_of_different_journals_have_nothing_to_say_to_each_other() -> None:
    assert Changelog[str]().mark().since(Changelog[str]().mark()) is None


def test_who_comes_back_too_late_is_told_so() -> None:
    changelog: Changelog[int] = Changelog()
    early = changelog.mark()
    for number in range(MOST_CHANGES):
        changelog.note(number)
    assert changelog.mark().since(early) == set(range(MOST_CHANGES))
    late = changelog.mark()
    changelog.note(-1)
    assert changelog.mark().since(early) is None
    assert changelog.mark().since(late) == {-1}


def test_a_moment_has_one_mark() -> None:
    changelog: Changelog[str] = Changelog()
    changelog.note("a")
    mark = changelog.mark()
    assert changelog.mark() is mark
    changelog.note("b")
    assert changelog.mark() is not mark


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 600), st.integers()),
        st.tuples(st.just("discard"), st.integers(0, 600)),
        st.tuples(st.just("snapshot")),
        st.tuples(st.just("copy")),
    ),
    max_size=60,
)


@settings(max_examples=80)
@given(STEPS)
def test_a_snapshot_keeps_what_was_there_while_the_map_goes_on(steps: list[tuple[object, ...]]) -> None:
    entries: SharedMap[int, int] = SharedMap()
    expected: dict[int, int] = {}
    taken = []
    for step in steps:
        match step:
            case ("set", int(key), int(value)):
                entries[key] = value
                expected[key] = value
            case ("discard", int(key)):
                entries.pop(key, None)
                expected.pop(key, None)
            case ("snapshot",):
                taken.append((entries.snapshot(), dict(expected)))
            case ("copy",):
                taken.append((entries.snapshot(), dict(expected)))
                entries = entries.copy()
    taken.append((entries.snapshot(), expected))
    for snapshot, then in taken:
        assert dict(snapshot) == then
        assert len(snapshot) == len(then)
        assert all(
            snapshot.get(key) == then.get(key) and (key in snapshot) == (key in then) for key in range(0, 600, 7)
        )


def test_a_copy_and_its_original_do_not_see_each_other() -> None:
    one: SharedMap[str, int] = SharedMap()
    one["a"] = 1
    other = one.copy()
    one["a"] = 2
    other["b"] = 3
    assert (one.get("a"), one.get("b")) == (2, None)
    assert (other.get("a"), other.get("b")) == (1, 3)
