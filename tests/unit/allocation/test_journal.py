"""What has changed since somebody looked."""

from __future__ import annotations

from cathedra.allocation.supply.journal import Journal


def test_a_later_mark_tells_what_happened_after_an_earlier_one() -> None:
    journal: Journal[str] = Journal()
    journal.note("before")
    first = journal.mark()
    journal.note("a")
    journal.note("b")
    journal.note("a")
    second = journal.mark()
    journal.note("after")
    assert second.since(first) == {"a", "b"}
    assert first.since(first) == set()


def test_an_earlier_mark_does_not_know_the_future() -> None:
    journal: Journal[str] = Journal()
    first = journal.mark()
    journal.note("a")
    assert first.since(journal.mark()) is None


def test_marks_of_different_journals_have_nothing_to_say_to_each_other() -> None:
    assert Journal[str]().mark().since(Journal[str]().mark()) is None


def test_who_comes_back_too_late_is_told_so() -> None:
    journal: Journal[int] = Journal()
    early = journal.mark()
    for number in range(Journal.LIMIT):
        journal.note(number)
    assert journal.mark().since(early) == set(range(Journal.LIMIT))
    late = journal.mark()
    journal.note(-1)
    assert journal.mark().since(early) is None
    assert journal.mark().since(late) == {-1}
