"""``cathedra demo``: it convinces, and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Shell


def test_it_shows_contention_and_what_frees_it(cathedra: Shell) -> None:
    said = cathedra("demo", "--runtime=process")
    assert "12 devices: 3 allocated, 5 blocked, 4 free" in said
    assert "request 'gpus' needs 2 devices: 2 are unallocated, but only 1 is usable; default/small-gpu-" in said
    assert " has consumed the counters of the other\n" in said
    assert "train got its two GPUs and is complete" in said
    assert re.search(r"GPU_DEVICE_(\d)_PARTITION_0=gpu-\1-partition-0\n", said)
    shared = re.findall(r"kubectl logs sharing-[ab] -c main\n  (\w+=gpu-\d-full)\n", said)
    assert (len(shared), len(set(shared))) == (2, 1)
    assert [line for line in said.splitlines() if line.startswith("  $ ")] == [
        *(f"  $ export PATH={path}:$PATH" for path in re.findall(r"export PATH=(\S+):", said)),
        "  $ cathedra up --detach",
        "  $ kubectl apply -f examples/pending-pods",
        "  $ cathedra status",
    ]


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory for temporary files whose name leaves room for those of sockets."""
    with tempfile.TemporaryDirectory(prefix="t-") as path:
        yield Path(path)


@dataclass
class Demo:
    """A demo that is to be interrupted."""

    process: subprocess.Popen[str]
    temporary: Path

    def read_until(self, line: str) -> None:
        """Let it go on until it has printed that."""
        assert self.process.stdout is not None
        while line not in (shown := self.process.stdout.readline()):
            assert shown, "it ended before"

    def interrupt(self, *signals: signal.Signals) -> None:
        """Insist that it ends and leaves nothing."""
        for number in signals:
            os.killpg(self.process.pid, number)
        rest, _ = self.process.communicate(timeout=150)
        assert self.process.returncode == 130, rest
        assert "Traceback" not in rest
        assert list(self.temporary.glob("cathedra-demo-*")) == []


@pytest.fixture
def start(cathedra: Shell, short: Path) -> Callable[..., Demo]:
    def call(*words: str) -> Demo:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "cathedra.cli.main", "demo", "--runtime=process", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**cathedra.environment, "TMPDIR": str(short)},
            text=True,
            start_new_session=True,
        )
        return Demo(process, short)

    return call


LINES = ["$ cathedra up", "API server", "ready in", "$ kubectl apply", "pod/notebook created", "Why pods wait"]


@pytest.mark.parametrize("line", [*LINES, "$ kubectl delete", "$ kubectl logs"])
def test_interrupting_it_leaves_nothing(line: str, start: Callable[..., Demo]) -> None:
    demo = start()
    demo.read_until(line)
    demo.interrupt(signal.SIGINT)


# Interrupts in the constructor of the event loop, before it has any attribute.
INTERRUPTED = """
import asyncio, os, signal, sys
whole = asyncio.SelectorEventLoop.__init__
def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
    whole(*arguments)
asyncio.SelectorEventLoop.__init__ = interrupted
from cathedra.cli.main import main
sys.exit(main(["demo", "--runtime=process"]))
"""


def test_interrupting_it_while_its_loop_is_made_leaves_nothing(cathedra: Shell, short: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**cathedra.environment, "TMPDIR": str(short)},
        text=True,
        start_new_session=True,
    )
    Demo(process, short).interrupt()


@pytest.mark.parametrize("seconds", [0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0])
def test_interrupting_it_while_it_starts_leaves_nothing(seconds: float, start: Callable[..., Demo]) -> None:
    """Here it is the moment itself that is tried, so there is no condition to wait for."""
    demo = start()
    demo.read_until("$ cathedra up")
    time.sleep(seconds)
    demo.interrupt(signal.SIGINT)


def test_interrupting_it_twice_leaves_nothing(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.read_until("pod/notebook created")
    demo.interrupt(signal.SIGINT, signal.SIGINT)


def test_ending_it_by_a_signal_leaves_nothing(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.read_until("pod/notebook created")
    demo.interrupt(signal.SIGTERM)


def test_what_was_to_be_kept_goes_when_it_is_interrupted(cathedra: Shell, start: Callable[..., Demo]) -> None:
    demo = start("--keep")
    demo.read_until("pod/notebook created")
    demo.interrupt(signal.SIGINT)
    assert cathedra("list").startswith("no clusters")
    assert not (cathedra.home / "state" / "clusters" / "demo").exists()


def test_what_is_kept_has_a_name_by_which_it_goes(cathedra: Shell) -> None:
    said = cathedra("demo", "--keep", "--runtime=process")
    assert "remove it with: cathedra delete demo" in said
    again = cathedra.run("demo", "--keep")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "holds a cluster already; remove it with: cathedra delete demo" in again.stderr
    assert "deleted the cluster demo" in cathedra("delete", "demo")
    assert cathedra("list").startswith("no clusters")
