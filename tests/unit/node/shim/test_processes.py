"""Processes that are found in /proc and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cathedra.node.shim.processes import (
    Belongs,
    descendants,
    has_variable,
    in_cgroup,
    in_session,
    in_sessions_below,
    kill,
    matching,
    process_session,
    writes_to,
)

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(script: str, **options: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
        started.append(process)
        return process  # type: ignore[no-any-return]

    yield run
    for process in started:
        process.kill()
        process.wait()


def first_line(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_a_session_is_killed_with_what_it_starts_meanwhile(start: Start) -> None:
    process = start("while :; do sleep 600 & echo $!; done", start_new_session=True)
    child = first_line(process)
    kill(in_session(process.pid))
    assert process.wait(120) == -signal.SIGKILL
    assert process_session(child) < 0
    assert matching(in_session(process.pid)) == set()


def test_a_process_that_leaves_its_session_is_found_by_its_variable(start: Start) -> None:
    process = start("setsid sh -c 'echo $$; exec sleep 600' & wait", env={"PATH": os.environ["PATH"], "MARK": "a b"})
    child = first_line(process)
    assert process_session(child) == child
    assert matching(has_variable("MARK=a b")) == {process.pid, child}
    assert matching(has_variable("MARK=a")) == set()
    kill(has_variable("MARK=a b"))
    assert process_session(child) < 0


def test_a_process_that_leaves_its_session_later_belongs_to_its_ancestor(start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    leave = f"echo $$; while [ ! -e {go} ]; do sleep 0.01; done; exec setsid -w sleep 600"
    process = start(f"sh -c '{leave}' & wait", start_new_session=True)
    child = first_line(process)
    belongs = in_sessions_below(process.pid)
    go.touch()
    while process_session(child) != child:
        time.sleep(0.001)
    assert belongs(child)
    kill(belongs)
    assert process_session(child) < 0


def test_of_the_own_session_only_the_processes_below_belong(start: Start) -> None:
    process, other = start("echo 1; sleep 600 & wait"), start("echo 1; exec sleep 600")
    first_line(process)
    first_line(other)
    found = matching(in_sessions_below(process.pid))
    assert process.pid in found
    assert not {other.pid, os.getppid()} & found
    kill(in_sessions_below(process.pid))


def test_the_processes_of_no_session_are_none() -> None:
    assert matching(in_session()) == matching(in_session(0, -1)) == set()


def test_descendants_are_found_across_sessions(start: Start) -> None:
    process = start("setsid sh -c 'echo $$; exec sleep 600' & wait")
    child = first_line(process)
    assert descendants(process.pid) == {process.pid, child}
    kill(lambda pid: pid == child)


def test_a_process_that_holds_a_pipe_open_for_writing_is_found(start: Start) -> None:
    process = start("sleep 600 & echo $!")
    child = first_line(process)
    assert process.wait(120) == 0
    assert process.stdout is not None
    pipe = os.fstat(process.stdout.fileno()).st_ino
    assert matching(writes_to(pipe)) == {child}, "this process reads from it"
    kill(writes_to(pipe))
    assert process.stdout.read() == b""


def test_a_cgroup_includes_those_below_it() -> None:
    own = Path("/proc/self/cgroup").read_text().splitlines()[-1].split(":", 2)[2].rstrip("/")
    belongs: Belongs = in_cgroup(own)
    assert belongs(os.getpid())
    assert not in_cgroup("/no/such/cgroup")(os.getpid())
