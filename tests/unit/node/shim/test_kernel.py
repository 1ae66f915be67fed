"""Calls of the kernel, and what is read from it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cathedra.node.shim import kernel


def test_a_process_is_known_by_when_it_began() -> None:
    own = kernel.start_time(os.getpid())
    assert own.isdigit()
    assert kernel.start_time(os.getpid()) == own
    process = subprocess.Popen(["sleep", "60"])
    try:
        assert int(kernel.start_time(process.pid)) >= int(own)
    finally:
        process.kill()
        process.wait()
    assert kernel.start_time(process.pid) == ""


@pytest.mark.parametrize("name", ["a) R 1", "((", "sh"])
def test_names_of_programs_may_look_like_the_rest_of_the_line(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "60"])
    try:
        assert kernel.start_time(process.pid).isdigit()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("text", "killed"),
    [
        ("low 0\noom 1\noom_kill 0\n", False),
        ("low 0\noom_kill 2\n", True),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", True),
        ("oom_kill_disable 1\n", False),
        ("", False),
    ],
)
def test_kills_for_want_of_memory_are_counted_by_the_kernel(text: str, killed: bool, tmp_path: Path) -> None:
    counter = tmp_path / "memory.events"
    counter.write_text(text)
    assert kernel.oom_killed(str(counter)) is killed


def test_where_nothing_is_counted_nothing_was_killed(tmp_path: Path) -> None:
    assert not kernel.oom_killed("")
    assert not kernel.oom_killed(str(tmp_path / "memory.events"))
    assert kernel.memory_cgroup(2**22 + 1) == ""


def test_a_refused_mount_says_where_and_why(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(OSError, match=f"mount {missing}: ") as raised:
        kernel.mount_bind("/", missing)
    assert raised.value.errno
    kernel.unmount(missing)


def test_a_child_that_is_bound_to_its_parent_does_not_outlive_it() -> None:
    program = (
        "import os, sys, time\n"
        f"sys.path.append({str(Path(kernel.__file__).parents[3])!r})\n"
        "from cathedra.node.shim import kernel\n"
        "parent = os.getpid()\n"
        "read, write = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    kernel.die_with_parent(parent)\n"
        "    os.write(write, b'.')\n"
        "    time.sleep(60)\n"
        "os.read(read, 1)\n"
    )
    # The child holds the output open: this returns when it has ended too.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=150, check=True)
    assert done.stdout == b""
