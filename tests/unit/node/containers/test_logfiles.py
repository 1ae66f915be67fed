"""What containers wrote, written by the shim and read for people (docs/spec/node.md §17.10)."""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.files.inotify import Inotify
from cathedra.node.containers import logfiles
from cathedra.node.containers.logfiles import LogOptions, LogWrites, read_log
from cathedra.node.shim import streams
from cathedra.node.shim.streams import LogFile

LINES = (
    b"2026-01-01T00:00:01.5Z stdout F one\n"
    b"2026-01-01T00:00:02Z stderr F two\n"
    b"2026-01-01T00:00:03Z stdout P thr\n"
    b"2026-01-01T00:00:03Z stdout F ee\n"
    b"2026-01-01T00:00:04Z stdout F four\n"
)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - files do not set events
        await asyncio.sleep(0.01)


async def read(path: Path, **options: object) -> str:
    pieces = [piece async for piece in read_log(path, LogOptions(**options), LogWrites(), ended=lambda: True)]  # type: ignore[arg-type]
    return b"".join(pieces).decode()


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, "one\ntwo\nthree\nfour\n"),
        ({"tail_lines": 2}, "three\nfour\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 99}, "one\ntwo\nthree\nfour\n"),
        ({"since": 1767225603.0}, "three\nfour\n"),
        ({"stream": "Stderr"}, "two\n"),
        ({"stream": "Stdout", "limit_bytes": 6}, "one\nth"),
        ({"timestamps": True, "tail_lines": 2}, "2026-01-01T00:00:03Z three\n2026-01-01T00:00:04Z four\n"),
    ],
)
async def test_only_what_is_asked_for_is_shown(tmp_path: Path, options: dict[str, object], shown: str) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(LINES)
    assert await read(path, **options) == shown


async def test_without_notifications_of_the_kernel_a_followed_log_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> Inotify:
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(logfiles, "Inotify", none_left)
    path, over, shown = tmp_path / "0.log", asyncio.Event(), b""
    path.write_bytes(LINES)
    async with asyncio.timeout(120):
        async for piece in read_log(
            path, LogOptions(follow=True), LogWrites(), ended=over.is_set, changes=lambda: (over,)
        ):
            shown += piece
            if shown.endswith(b"four\n"):
                with path.open("ab") as file:
                    file.write(b"2026-01-01T00:00:05Z stdout F five\n")
            else:
                over.set()
    assert shown.endswith(b"four\nfive\n")


async def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert await read(tmp_path / "0.log") == ""


async def test_a_log_is_followed_over_its_rotation_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes and the end wake the reader: it never looks by the clock."""
    monkeypatch.setattr(logfiles, "_LOOK_AGAIN", 3600.0)
    path = tmp_path / "0.log"
    path.write_bytes(LINES)
    over = asyncio.Event()
    shown: list[bytes] = []

    async def follow() -> None:
        options = LogOptions(follow=True, tail_lines=1)
        async for piece in read_log(path, options, LogWrites(), ended=over.is_set, changes=lambda: (over,)):
            shown.append(piece)

    following = asyncio.ensure_future(follow())
    async with asyncio.timeout(120):
        await until(lambda: bool(shown))
        path.rename(tmp_path / "old")
        path.write_bytes(b"2026-01-01T00:00:05Z stdout F five\n")
        await until(lambda: len(shown) == 2)
        over.set()
        await following
    assert b"".join(shown) == b"four\nfive\n"


def instances() -> int:
    """Return the number of inotify instances of this process."""
    return sum("inotify" in path.readlink().name for path in Path("/proc/self/fd").iterdir() if path.is_symlink())


async def test_all_who_follow_logs_share_one_watcher_of_the_kernel(tmp_path: Path) -> None:
    before, writes, over = instances(), LogWrites(), asyncio.Event()
    paths = [tmp_path / str(number) / "0.log" for number in range(5)]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(LINES)
    shown: dict[Path, list[bytes]] = {path: [] for path in paths}

    async def follow(path: Path) -> None:
        options = LogOptions(follow=True, tail_lines=1)
        async for piece in read_log(path, options, writes, ended=over.is_set, changes=lambda: (over,)):
            shown[path].append(piece)

    following = [asyncio.ensure_future(follow(path)) for path in paths * 4]
    async with asyncio.timeout(120):
        await until(lambda: all(len(pieces) == 4 for pieces in shown.values()))
        assert (instances() - before, writes.followers) == (1, 20)
        with paths[2].open("ab") as file:
            file.write(b"2026-01-01T00:00:05Z stdout F five\n")
        await until(lambda: len(shown[paths[2]]) == 8)
        assert [len(pieces) for pieces in shown.values()] == [4, 4, 8, 4, 4]
        over.set()
        await asyncio.gather(*following)
    assert (instances() - before, writes.followers) == (0, 0)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300).filter(lambda data: b"\r" not in data), max_size=20))
def test_what_is_written_in_any_pieces_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("log") / "0.log"
    log = LogFile(str(path))
    for piece in pieces:
        log.write("stdout", piece)
    log.finish("stdout")
    log.close()

    async def body() -> bytes:
        return b"".join([piece async for piece in read_log(path, LogOptions(), LogWrites(), ended=lambda: True)])

    assert asyncio.run(body()) == b"".join(pieces)


def test_every_line_says_when_it_was_written_on_which_stream_and_whether_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "c" / "0.log"
    log = LogFile(str(path))
    log.write("stdout", b"a\nb")
    log.write("stderr", b"x" * 20_000 + b"\n")
    log.finish("stdout")
    log.close()
    found = [line.split(" ", 3) for line in path.read_text().splitlines()]
    assert [(stream, tag, len(text)) for _, stream, tag, text in found] == [
        ("stdout", "F", 1),
        ("stderr", "P", 16384),
        ("stderr", "F", 3616),
        ("stdout", "P", 1),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", line[0]) for line in found)


def test_a_log_that_grows_too_long_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ROTATE_BYTES", 100)
    path = tmp_path / "0.log"
    log = LogFile(str(path))
    for _ in range(3):
        log.write("stdout", b"x" * 50 + b"\n")
    log.close()
    assert len(list(tmp_path.glob("0.log.*"))) == 1
    assert path.stat().st_size < 100
