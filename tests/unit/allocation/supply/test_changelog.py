"""What has changed since a mark."""

from __future__ import annotations

from cathedra.allocation.supply.changelog import Changelog


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
    for number in range(Changelog.LIMIT):
        changelog.note(number)
    assert changelog.mark().since(early) == set(range(Changelog.LIMIT))
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
