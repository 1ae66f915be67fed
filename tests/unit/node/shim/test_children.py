"""Child processes: why one cannot be executed, ends that come early, and commands that end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cathedra
from cathedra.node.shim.children import Children, ChildStreams, run_to_end, start_process


def test_a_command_that_cannot_be_executed_says_why() -> None:
    for command, why in (
        ("no-such-command", "executable file not found in $PATH"),
        ("/etc/passwd", "Permission denied"),
    ):
        pid, complaint = start_process([command], dict(os.environ), "/", ChildStreams())
        assert complaint == f'exec: "{command}": {why}'
        os.waitpid(pid, 0)


def test_the_end_of_a_child_is_reported_even_if_it_came_before_it_was_claimed() -> None:
    children = Children()
    ended: list[int] = []
    children.run(["sh", "-c", "exit 3"], ended.append)
    pid, _ = start_process(["sh", "-c", "exit 4"], dict(os.environ), "/", ChildStreams())
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    deadline = time.monotonic() + 120
    while not ended:
        assert time.monotonic() < deadline
        children.reap()
        time.sleep(0.02)
    early = children.claim(pid, ended.append)
    assert (ended, early) == ([3], 4)


def test_a_process_is_executed_only_after_its_id_was_recorded(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    recorded: list[tuple[int, bool]] = []

    def forked(pid: int) -> None:
        time.sleep(0.05)
        recorded.append((pid, ran.exists()))

    pid, complaint = start_process(["touch", str(ran)], dict(os.environ), "/", ChildStreams(), forked=forked)
    os.waitpid(pid, 0)
    assert (complaint, recorded, ran.exists()) == ("", [(pid, False)], True)


def test_a_process_whose_id_cannot_be_recorded_is_never_executed(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    pids: list[int] = []

    def forked(pid: int) -> None:
        pids.append(pid)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        start_process(["touch", str(ran)], dict(os.environ), "/", ChildStreams(), forked=forked)
    assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 127
    assert not ran.exists()


def test_a_command_is_killed_with_the_process_that_runs_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    program = (
        f"import sys, time; sys.path.insert(0, {str(Path(cathedra.__file__).parents[1])!r}); "
        "from cathedra.node.shim.children import Children; "
        f"Children().run(['sh', '-c', 'echo $$ > {pid_file}; exec sleep 600'], print); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    deadline = time.monotonic() + 120
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    status = Path(f"/proc/{pid_file.read_text().strip()}/status")
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_command_can_be_waited_for() -> None:
    assert run_to_end(["sh", "-c", "exit 5"]) == 5
