"""What goes into a container and what comes out of it: pipes, terminals, and those that listen."""

from __future__ import annotations

import os
import re
import selectors
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.node.shim import streams
from cathedra.node.shim.children import ChildStreams, start_process
from cathedra.node.shim.streams import ContainerStreams, LogFile


class Bench:
    """A container's streams, and the loop that the shim would run."""

    def __init__(self, log: Path) -> None:
        self.selector = selectors.DefaultSelector()
        self.streams = ContainerStreams(self.selector, LogFile(str(log)))
        self.heard: dict[str, bytes] = {}
        self.ended = False
        self.streams.listen("me", self.hear)

    def hear(self, stream: str, data: bytes) -> None:
        self.heard[stream] = self.heard.get(stream, b"") + data
        self.ended = self.ended or not data

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline
            for key, _ in self.selector.select(timeout=0.05):
                key.data(key.fileobj)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path / "0.log")
    # `listen` reports at once that no data can follow if no stream is open yet.
    found.ended, found.heard = False, {}
    return found


def run(bench: Bench, ends: ChildStreams, *argv: str) -> int:
    pid, complaint = start_process(argv, dict(os.environ), "/", ends)
    ends.close()
    assert complaint == ""
    return pid


def test_input_of_any_length_arrives_and_its_end_too(bench: Bench, tmp_path: Path) -> None:
    pid = run(bench, bench.streams.open_pipes(stdin=True), "sh", "-c", "sleep 0.1; cat; echo end >&2")
    written: list[int] = []
    data = bytes(range(1, 10)) * 50_000
    bench.streams.write(data, lambda: written.append(1))
    bench.streams.close_input()
    assert written == [], "the pipe is full, so the writer has to wait"
    bench.until(lambda: bench.ended)
    assert written == [1]
    assert bench.heard["stdout"] == data
    assert bench.heard["stderr"] == b"end\n"
    os.waitpid(pid, 0)
    assert " stderr F end" in (tmp_path / "0.log").read_text()


def test_input_that_is_not_read_is_dropped(bench: Bench) -> None:
    pid = run(bench, bench.streams.open_pipes(stdin=True), "sh", "-c", "exec <&-; sleep 0.2; echo still here")
    time.sleep(0.1)
    written: list[int] = []
    bench.streams.write(b"x" * 500_000, lambda: written.append(1))
    bench.until(lambda: bench.ended)
    assert written == [1]
    assert bench.heard["stdout"] == b"still here\n"
    os.waitpid(pid, 0)


def test_a_terminal_has_a_size_and_carries_everything_on_one_stream(bench: Bench) -> None:
    ends = bench.streams.open_terminal()
    bench.streams.resize(91, 27)
    pid = run(bench, ends, "sh", "-c", "stty -echo; stty size; read x; echo got $x >&2")
    bench.until(lambda: b"27 91" in bench.heard.get("stdout", b""))
    bench.streams.write(b"word\n", lambda: None)
    bench.until(lambda: bench.ended)
    assert b"got word\r\n" in bench.heard["stdout"]
    os.waitpid(pid, 0)


def test_a_late_listener_is_told_that_nothing_will_come(bench: Bench) -> None:
    pid = run(bench, bench.streams.open_pipes(stdin=False), "true")
    bench.until(lambda: bench.ended)
    heard: list[tuple[str, bytes]] = []
    bench.streams.listen("late", lambda stream, data: heard.append((stream, data)))
    assert heard == [("", b"")]
    bench.streams.close()
    os.waitpid(pid, 0)


# The log of a container in the format of the container runtime interface.

LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (stdout|stderr) ([PF]) ([^\n]*)\n")


def entries(path: Path) -> list[tuple[bytes, bytes, bytes]]:
    """Stream, tag and text of each line; every byte of the file belongs to one."""
    data = path.read_bytes()
    assert b"".join(match[0] for match in LINE.finditer(data)) == data
    return [(match[2], match[3], match[4]) for match in LINE.finditer(data)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.binary(max_size=60).map(lambda data: data.replace(b"\0", b"\n")), max_size=8))
def test_nothing_is_lost_however_the_output_arrives(tmp_path: Path, pieces: list[bytes]) -> None:
    path = tmp_path / "0.log"
    path.unlink(missing_ok=True)
    log = LogFile(str(path))
    for piece in pieces:
        log.write("stdout", piece)
    log.finish("stdout")
    log.close()
    found = entries(path)
    assert b"".join(text + (b"\n" if tag == b"F" else b"") for _, tag, text in found) == b"".join(pieces)


def test_an_unfinished_line_waits_for_its_end_and_streams_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = LogFile(str(path))
    log.write("stdout", b"one ")
    log.write("stderr", b"err\n")
    assert entries(path) == [(b"stderr", b"F", b"err")]
    log.write("stdout", b"two\n")
    log.close()
    assert entries(path)[1:] == [(b"stdout", b"F", b"one two")]


def test_a_long_line_is_cut_into_parts(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = LogFile(str(path))
    log.write("stdout", b"x" * 40_000 + b"\n")
    log.close()
    assert [(tag, len(text)) for _, tag, text in entries(path)] == [(b"P", 16384), (b"P", 16384), (b"F", 7232)]


def test_a_log_that_grows_too_large_begins_anew_and_old_ones_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "ROTATE_BYTES", 100)
    seconds = iter(range(100))
    monkeypatch.setattr(streams.time, "strftime", lambda form, _=None: f"{form}{next(seconds):04}")
    log = LogFile(str(tmp_path / "0.log"))
    for _ in range(8):
        log.write("stdout", b"x" * 100 + b"\n")
    log.close()
    assert len(list(tmp_path.glob("0.log.*"))) == 4
    assert (tmp_path / "0.log").stat().st_size == 0


def test_a_log_goes_on_where_an_earlier_shim_ended(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    for text in (b"one\n", b"two\n"):
        log = LogFile(str(path))
        log.write("stdout", text)
        log.close()
    assert [text for _, _, text in entries(path)] == [b"one", b"two"]
