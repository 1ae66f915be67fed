"""The shim as a program: what it needs, and that there is one of it."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cathedra
from cathedra.node.shim.protocol import PROTOCOL


def test_the_shim_stands_on_the_standard_library_alone() -> None:
    program = (
        f"import sys; sys.path.append({str(Path(cathedra.__file__).parents[1])!r}); "
        "import cathedra.node.shim.main; "
        "print([n for n in sys.modules "
        "if n.startswith('cathedra.') and not n.startswith(('cathedra.node', 'cathedra.files'))])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# What a shim answers on its socket, and when it leaves.

PROGRAM = (
    f"import sys; sys.path.append({str(Path(cathedra.__file__).parents[1])!r}); "
    "from cathedra.node.shim.main import main; main()"
)


class Agent:
    """One connection; what comes unasked is in ``heard``."""

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(20)
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self._socket.connect(f"/proc/self/fd/{folder}/shim.sock")
        os.close(folder)
        self._lines = self._socket.makefile("r")
        self._tag = 0
        self.heard: list[dict[str, Any]] = []

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        self._tag += 1
        self._socket.sendall(json.dumps({"do": do, "tag": self._tag, **fields}).encode() + b"\n")
        while True:
            message = json.loads(self._lines.readline())
            if message.get("tag") == self._tag:
                del message["tag"]
                return dict(message)
            self.heard.append(message)

    def hear(self, kind: str) -> dict[str, Any]:
        """Return the next unrequested message of that kind."""
        while True:
            for at, message in enumerate(self.heard):
                if kind in message:
                    return self.heard.pop(at)
            self.heard.append(json.loads(self._lines.readline()))

    def at_end(self) -> bool:
        """Wait until the other side has closed; return True if it has."""
        return self._lines.readline() == ""

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def start(directory: Path, orphan_seconds: str) -> None:
    """Start a shim; on return it can be reached."""
    arguments = [str(directory), orphan_seconds, ""]
    subprocess.run([sys.executable, "-I", "-S", "-c", PROGRAM, *arguments], check=True, timeout=150)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "containers"
    start(made, "600")
    yield made
    last = Agent(made)
    last.ask("end")
    assert last.at_end()
    last.close()


def process(directory: Path, script: str, **more: Any) -> dict[str, Any]:
    """Return the start request of a container that runs ``script``."""
    return {
        "id": "a",
        "label": "mine",
        "log": str(directory / "a.log"),
        "kind": "process",
        "argv": ["sh", "-c", script],
        "env": {"PATH": os.environ["PATH"]},
        "cwd": "/",
        **more,
    }


def test_it_says_its_protocol_and_what_it_holds(directory: Path) -> None:
    agent = Agent(directory)
    assert agent.ask("list")["protocol"] == PROTOCOL
    assert "error" not in agent.ask("start", **process(directory, "sleep 600"))
    (held,) = agent.ask("list")["containers"]
    assert (held["id"], held["label"], held["exit"]) == ("a", "mine", None)
    agent.close()


def test_every_agent_hears_of_an_end(directory: Path) -> None:
    first, second = Agent(directory), Agent(directory)
    second.ask("list")
    first.ask("start", **process(directory, "exit 3"))
    for agent in (first, second):
        ended = agent.hear("exited")["exited"]
        assert (ended["id"], ended["exit"]["code"]) == ("a", 3)
        agent.close()


def test_output_goes_to_those_who_have_attached(directory: Path) -> None:
    asking, other = Agent(directory), Agent(directory)
    asking.ask("start", **process(directory, "read line; echo got $line; sleep 600", stdin=True))
    assert asking.ask("attach", id="a") == {}
    assert asking.ask("input", id="a", data=base64.b64encode(b"hello\n").decode()) == {}
    told = asking.hear("output")
    assert (told["output"], told["stream"], base64.b64decode(told["data"])) == ("a", "stdout", b"got hello\n")
    other.ask("list")
    assert other.heard == []
    for agent in (asking, other):
        agent.close()


@pytest.mark.parametrize("verb", ["attach", "detach", "input", "close-input", "resize"])
def test_what_does_not_run_has_no_streams(directory: Path, verb: str) -> None:
    agent = Agent(directory)
    assert agent.ask(verb, id="x") == {"error": "container x does not run"}
    agent.close()


def test_signals_and_removals_of_what_is_not_there_are_no_errors(directory: Path) -> None:
    agent = Agent(directory)
    assert agent.ask("signal", id="x", number=9) == {}
    assert agent.ask("remove", id="x") == {}
    agent.close()


def test_a_container_that_cannot_be_started_leaves_nothing(directory: Path) -> None:
    agent = Agent(directory)
    refused = agent.ask("start", **process(directory, "true", argv=["/no/such/program"]))
    assert "/no/such/program" in refused["error"]
    assert agent.ask("list")["containers"] == []
    agent.close()


def test_without_an_agent_for_too_long_it_ends_its_containers_and_leaves(tmp_path: Path) -> None:
    directory = tmp_path / "containers"
    start(directory, "0")
    agent = Agent(directory)
    agent.ask("start", **process(directory, "trap 'sleep 0.3; exit' TERM; sleep 600"))
    watched = subprocess.Popen(["tail", f"--pid={agent.ask('list')['pid']}", "-f", "/dev/null"])
    agent.close()
    assert watched.wait(120) == 0
    assert not (directory / "shim.sock").exists()
    assert not (directory / "shim.json").exists()
