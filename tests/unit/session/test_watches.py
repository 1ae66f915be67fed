"""What a session keeps for a watch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from cathedra.session.protocol import RequestMessage, RequestOptions
from cathedra.session.watches import SessionWatch


class Watcher:
    """Events that wait, by hand."""

    def __init__(self) -> None:
        self.waiting: list[str] = []

    def taken(self) -> list[str]:
        taken, self.waiting = self.waiting, []
        return taken


class Start:
    """The beginning of a watch with two objects that are there already."""

    def __init__(self) -> None:
        self.watcher = Watcher()

    def initial_events(self) -> Iterator[str]:
        return iter(["first", "second"])


def test_what_is_there_comes_first_and_then_what_waits_as_it_comes() -> None:
    start: Any = Start()
    asked = RequestMessage(7, 1, "watch", "", "v1", "pods", "", "", "", 3, RequestOptions(bookmarks=True), b"")
    watch = SessionWatch(asked, cast("Any", None), start, cast("Any", None))
    assert (watch.id, watch.form, watch.bookmarks, watch.is_beginning) == (7, 3, True, True)
    start.watcher.waiting = ["third"]
    seen: list[Any] = [watch.next(), watch.next()]
    assert (seen, watch.is_beginning) == (["first", "second"], True)
    assert cast("Any", watch.next()) == "third"
    assert (watch.next(), watch.is_beginning) == (None, False)
    start.watcher.waiting = ["fourth"]
    assert cast("Any", watch.next()) == "fourth"
