"""Events of one change for watchers with different selections."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.apiserver.registry import watching
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.watching import Seen, StoredChange, Watcher, Watchers
from cathedra.client.transport import EventType
from tests.unit.kinds.objects import definition_of, pod

READY = Selection.parse(definition_of("pods"), "", "ready=yes", "")
ALL = Selection()


def stored(ready: str, revision: int) -> StoredObject:
    return StoredObject("default/p", pod(metadata={"labels": {"ready": ready}}), revision)


def together(*watchers: Watcher) -> Watchers:
    found = Watchers()
    for watcher in watchers:
        found.add(watcher)
    return found


def seen(change: StoredChange, selection: Selection) -> EventType | None:
    found = change.seen_by(selection)
    return None if found is None else found.type


@pytest.mark.parametrize(
    ("before", "after", "all_see", "ready_see"),
    [
        (None, "yes", EventType.ADDED, EventType.ADDED),
        (None, "no", EventType.ADDED, None),
        ("no", "yes", EventType.MODIFIED, EventType.ADDED),
        ("yes", "yes", EventType.MODIFIED, EventType.MODIFIED),
        ("yes", "no", EventType.MODIFIED, EventType.DELETED),
        ("no", "no", EventType.MODIFIED, None),
    ],
)
def test_entering_and_leaving_a_selection_are_events_of_their_own(
    before: str | None, after: str, all_see: EventType, ready_see: EventType | None
) -> None:
    change = StoredChange(2, stored(after, 2), None if before is None else stored(before, 1))
    assert (seen(change, ALL), seen(change, READY)) == (all_see, ready_see)


def test_who_sees_an_object_leave_gets_its_last_matching_state_at_the_revision_of_leaving() -> None:
    found = StoredChange(2, stored("no", 2), stored("yes", 1)).seen_by(READY)
    assert found is not None
    assert found.entry.object.metadata.labels == {"ready": "yes"}
    assert found.entry.revision == 2


def test_a_removal_is_seen_only_by_those_who_saw_the_object() -> None:
    assert seen(StoredChange(2, stored("yes", 2), stored("yes", 1), deleted=True), READY) is EventType.DELETED
    assert seen(StoredChange(2, stored("no", 2), stored("no", 1), deleted=True), READY) is None


async def test_one_broadcast_reaches_the_namespaces_watchers_and_is_encoded_once() -> None:
    here, also, elsewhere = Watcher(ALL), Watcher(ALL), Watcher(Selection("other"))
    StoredChange(2, stored("yes", 2), None).broadcast(together(here, also, elsewhere))
    (one,), (other,) = await here.take(), await also.take()
    assert one is other
    assert one.type is EventType.ADDED
    elsewhere.end()
    assert await elsewhere.take() == []


async def test_what_was_seen_on_another_server_is_not_told_again() -> None:
    watcher = Watcher(ALL, after=5)
    watcher.offer(StoredChange(5, stored("yes", 5), None))
    watcher.offer(StoredChange(6, stored("no", 6), stored("yes", 5)))
    assert [found.entry.revision for found in await watcher.take()] == [6]


async def test_a_broadcast_tells_nobody_again_what_was_seen_on_another_server() -> None:
    further, behind = Watcher(ALL, after=5), Watcher(ALL, after=4)
    watchers = together(further, behind)
    for revision in (5, 6):
        StoredChange(revision, stored("yes", revision), None).broadcast(watchers)
    assert [found.entry.revision for found in await further.take()] == [6]
    assert [found.entry.revision for found in await behind.take()] == [5, 6]


async def test_of_watchers_with_one_selection_only_the_one_that_does_not_keep_up_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "QUEUE_LIMIT", 2)
    slow, quick = Watcher(ALL), Watcher(ALL)
    watchers, taken = together(slow, quick), []
    for revision in range(4):
        StoredChange(revision + 1, stored("yes", revision + 1), None).broadcast(watchers)
        taken += quick.taken()
    assert slow.closed
    assert not quick.closed
    assert [found.entry.revision for found in taken] == [1, 2, 3, 4]


@pytest.mark.parametrize("others", [0, 1])
def test_a_watcher_that_was_cut_or_has_ended_gets_nothing_after_the_gap(
    others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "QUEUE_LIMIT", 2)
    cut, ended = Watcher(ALL), Watcher(READY)
    watchers = together(cut, ended, *(Watcher(one) for one in (ALL, READY) for _ in range(others)))
    for revision in range(1, 6):
        if revision == 2:
            ended.end()
        StoredChange(revision, stored("yes", revision), None).broadcast(watchers)
    if others:
        next(iter(watchers)).taken()
    assert [found.entry.revision for found in ended.taken()] == [1]
    assert cut.taken() == []
    assert cut.closed


def test_a_watcher_hears_of_nothing_that_came_before_it_and_keeps_what_came_before_it_left() -> None:
    early, late = Watcher(ALL), Watcher(ALL)
    watchers = together(early, Watcher(ALL))
    StoredChange(1, stored("yes", 1), None).broadcast(watchers)
    watchers.add(late)
    StoredChange(2, stored("yes", 2), None).broadcast(watchers)
    watchers.discard(early)
    StoredChange(3, stored("yes", 3), None).broadcast(watchers)
    assert [found.entry.revision for found in early.taken()] == [1, 2]
    assert [found.entry.revision for found in late.taken()] == [2, 3]


def test_each_of_many_watchers_is_told_once_that_events_wait_until_it_takes_them() -> None:
    watchers, told = [Watcher(ALL), Watcher(ALL)], [0, 0]
    for number, watcher in enumerate(watchers):

        def tell(number: int = number) -> None:
            told[number] += 1

        watcher.on_events = tell
    alike = together(*watchers)
    for revision in range(1, 4):
        StoredChange(revision, stored("yes", revision), None).broadcast(alike)
    assert told == [1, 1]
    assert len(watchers[0].taken()) == 3
    StoredChange(4, stored("yes", 4), None).broadcast(alike)
    assert told == [2, 1]
    assert [len(watcher.taken()) for watcher in watchers] == [1, 4]


def test_events_that_nobody_takes_are_bounded_for_each_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "QUEUE_LIMIT", 4)
    monkeypatch.setattr(watching, "FRESH_LIMIT", 3)
    first, second = Watcher(ALL), Watcher(ALL)
    watchers = together(first, second)
    for revision in range(1, 7):
        assert not (first.closed)
        assert not (second.closed)
        StoredChange(revision, stored("yes", revision), None).broadcast(watchers)
    assert first.closed
    assert second.closed


@given(st.lists(st.tuples(st.sampled_from(["write", "take", "enter", "leave"]), st.integers(0, 3)), max_size=40))
def test_watchers_of_one_selection_hear_of_what_each_would_alone(steps: list[tuple[str, int]]) -> None:
    alike, watchers = Watchers(), [Watcher(ALL) for _ in range(4)]
    present: set[int] = set()
    heard: list[list[int]] = [[] for _ in watchers]
    expected: list[list[int]] = [[] for _ in watchers]
    for revision, (step, number) in enumerate(steps, 1):
        if step == "write":
            StoredChange(revision, stored("yes", revision), None).broadcast(alike)
            for one in present:
                expected[one].append(revision)
        elif step == "take":
            heard[number] += [seen.entry.revision for seen in watchers[number].taken()]
            assert heard[number] == expected[number]
        elif step == "enter":
            alike.add(watchers[number])
            present.add(number)
        else:
            alike.discard(watchers[number])
            present.discard(number)
    for number, watcher in enumerate(watchers):
        assert heard[number] + [seen.entry.revision for seen in watcher.taken()] == expected[number]


def test_watchers_that_are_let_go_of_hear_of_nothing_and_leave_nothing_behind() -> None:
    first, second, other = Watcher(ALL), Watcher(ALL), Watcher(READY)
    watchers = together(first, second, other)
    watchers.discard(first)
    watchers.discard(first)
    StoredChange(1, stored("yes", 1), None).broadcast(watchers)
    assert (len(first.taken()), len(second.taken()), len(other.taken())) == (0, 1, 1)
    assert set(watchers) == {second, other}
    for watcher in (second, other, first):
        watchers.discard(watcher)
    assert not watchers
    assert not watchers.alike


async def test_a_watcher_that_does_not_keep_up_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "QUEUE_LIMIT", 2)
    watcher = Watcher(ALL)
    for revision in range(3):
        watcher.push(Seen(EventType.ADDED, stored("yes", revision + 1)))
    assert watcher.closed
    assert await watcher.take() == []


async def test_waiting_ends_with_the_next_event() -> None:
    watcher = Watcher(ALL)
    waiting = asyncio.ensure_future(watcher.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    watcher.push(Seen(EventType.ADDED, stored("yes", 1)))
    assert len(await waiting) == 1


def large(number: int, size: int) -> StoredObject:
    """Return an object whose JSON has a number of bytes."""
    found = stored("yes", number)
    found.size = size
    return found


async def test_a_watcher_that_does_not_take_its_events_holds_no_more_than_some_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "QUEUE_BYTES", 1000)
    alone, first, second = Watcher(READY), Watcher(ALL), Watcher(ALL)
    watchers = together(alone, first, second)
    for number in range(1, 11):
        StoredChange(number, large(number, 100), None).broadcast(watchers)
        assert len(second.taken()) == 1
    assert (alone.closed, first.closed) == (False, False)
    StoredChange(11, large(11, 100), None).broadcast(watchers)
    assert len(second.taken()) == 1
    assert (alone.closed, first.closed, second.closed) == (True, True, False)
    assert not alone.queue
    assert not first.queue


async def test_one_event_is_queued_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "QUEUE_BYTES", 1000)
    watcher = Watcher(ALL)
    StoredChange(1, large(1, 5000), None).broadcast(together(watcher))
    assert not watcher.closed
    assert len(watcher.taken()) == 1


async def test_events_are_taken_until_they_have_so_many_bytes() -> None:
    watcher = Watcher(ALL)
    watchers = together(watcher)
    for number in range(1, 6):
        StoredChange(number, large(number, 100), None).broadcast(watchers)
    assert [len(watcher.taken(250)) for _ in range(3)] == [3, 2, 0]
