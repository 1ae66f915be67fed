"""``cathedra status`` at the widths at which people see it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.requirements import kubectl_path

EXAMPLES = Path(__file__).parents[2] / "examples"
STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A cluster on which some pods run and some wait."""
    shell = Shell(tmp_path_factory.mktemp("home"))
    shell("up", "--detach", "--nodes=1", "--gpus=2", "--runtime=process")
    command = [kubectl_path(), "apply", "-f", EXAMPLES / "pending-pods", "-f", EXAMPLES / "shared-claim"]
    subprocess.run(command, env=shell.environment, check=True, capture_output=True)
    deadline = time.monotonic() + 30
    while len(reasons(shell)) < 3 or "2 Running" not in shell("status"):
        assert time.monotonic() < deadline, shell("status")
        time.sleep(0.2)
    yield shell
    shell("delete")


def reasons(shell: Shell) -> dict[str, str]:
    """Pod → why it waits."""
    rows = json.loads(shell("status", "-o", "json"))["pods"]
    return {row["name"]: row["why"] for row in rows if row["why"]}


def on_a_terminal(shell: Shell, columns: int, *words: str) -> list[str]:
    """The lines that a terminal of that width shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, "-m", "cathedra.cli.main", *words]
    environment = {**shell.environment, "TERM": "xterm-256color"}
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=shell.home)
    os.close(theirs)
    data = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        data += part
    os.close(ours)
    assert child.wait(30) == 0
    return STYLES.sub("", data.decode()).replace("\r", "").splitlines()


@pytest.mark.parametrize("columns", [80, 160])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(waiting: Shell, columns: int) -> None:
    lines = on_a_terminal(waiting, columns, "status")
    body = lines[next(i for i, line in enumerate(lines) if line.startswith("Nodes")) :]
    assert max(map(len, map(str.rstrip, body))) <= columns
    text = "\n".join(body)
    for word in ("bypasses-the-scheduler", "unsatisfiable-claim", "never-allocated", "gpu.example.com/node-0/gpu-0"):
        assert word in text


def test_each_pending_pod_has_its_cause(waiting: Shell) -> None:
    said = reasons(waiting)
    assert said["missing-claim"] == "claim 'nobody-made-this' does not exist in namespace 'default'"
    assert said["unsatisfiable-claim"] == "request 'gpu' wants 1: 0 of 2 devices match its selectors"
    assert "is not allowed to use ResourceClaim never-allocated" in said["bypasses-the-scheduler"]
    piped = waiting("status")
    assert all(f"    {why}\n" in piped for why in said.values())
    assert "\x1b" not in piped


def test_a_namespace_narrows_claims_and_pods_only(waiting: Shell) -> None:
    shown = json.loads(waiting("status", "-n", "kube-system", "-o", "json"))
    assert (shown["claims"], shown["pods"], len(shown["devices"])) == ([], [], 2)


def test_watching_shows_what_changes(waiting: Shell) -> None:
    command = [sys.executable, "-m", "cathedra.cli.main", "status", "-w", "-o", "json", "-n", "watched"]
    following = subprocess.Popen(command, stdout=subprocess.PIPE, env=waiting.environment, text=True)
    assert following.stdout is not None
    try:
        assert json.loads(following.stdout.readline())["claims"] == []
        kubectl = [kubectl_path(), "--namespace=watched"]
        subprocess.run([kubectl_path(), "create", "namespace", "watched"], env=waiting.environment, check=True)
        manifest = str(EXAMPLES / "shared-claim" / "resourceclaim.yaml")
        subprocess.run([*kubectl, "apply", "-f", manifest], env=waiting.environment, check=True)
        assert [row["name"] for row in json.loads(following.stdout.readline())["claims"]] == ["shared-gpu"]
    finally:
        following.terminate()
        following.communicate(timeout=30)
