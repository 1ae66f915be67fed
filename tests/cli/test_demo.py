"""``cathedra demo``: it convinces, and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Shell


def test_it_shows_contention_and_what_frees_it(cathedra: Shell) -> None:
    said = cathedra("demo", "--runtime=process")
    assert "4 devices: 3 allocated, 1 free" in said
    assert "waits: request 'gpus' wants 2: 1 of 4 matching devices are free, the others are held by default/" in said
    assert "train got its two GPUs and is complete" in said
    assert "_PARTITION_COUNT=4" in said
    assert said.count("  $ ") == 3


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory for temporary files whose name leaves room for those of sockets."""
    with tempfile.TemporaryDirectory(prefix="t-") as path:
        yield Path(path)


@pytest.mark.parametrize("line", ["$ cathedra up", "ready in", "$ kubectl apply", "pod/notebook created", "waits: "])
def test_interrupting_it_leaves_nothing(line: str, cathedra: Shell, short: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-u", "-m", "cathedra.cli.main", "demo", "--runtime=process"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**cathedra.environment, "TMPDIR": str(short)},
        text=True,
        start_new_session=True,
    )
    assert demo.stdout is not None
    while line not in (shown := demo.stdout.readline()):
        assert shown, "it ended before"
    os.killpg(demo.pid, signal.SIGINT)
    rest, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, rest
    assert "Traceback" not in rest
    assert list(short.glob("cathedra-demo-*")) == []


def test_what_is_kept_has_a_name_by_which_it_goes(cathedra: Shell) -> None:
    said = cathedra("demo", "--keep", "--runtime=process")
    assert "remove it with: cathedra delete demo" in said
    again = cathedra.run("demo", "--keep")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "holds a cluster already; remove it with: cathedra delete demo" in again.stderr
    assert "deleted the cluster demo" in cathedra("delete", "demo")
    assert cathedra("list").startswith("no clusters")
