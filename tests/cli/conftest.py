"""A user's surroundings: a home, a kubeconfig and a state directory of the test's own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.process.background import stop

STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Screen:
    """Terminal output of a command, and its exit code."""

    code: int
    lines: list[str]


@dataclass(frozen=True)
class Shell:
    """Runs ``cathedra`` as a user whose home is ``home``."""

    home: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.home), "CATHEDRA_DATA_DIR": str(self.home / "state")}

    @property
    def kubeconfig(self) -> Path:
        return self.home / ".kube" / "config"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run and return whatever happens."""
        command = [sys.executable, "-m", "cathedra.cli.main", *words]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=150, check=False, env=self.environment, cwd=self.home
        )

    def on_a_terminal(self, columns: int, *words: str) -> Screen:
        """Run on a terminal of that width."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        command = [sys.executable, "-m", "cathedra.cli.main", *words]
        environment = {**self.environment, "TERM": "xterm-256color"}
        child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=self.home)
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
        return Screen(child.wait(60), STYLES.sub("", data.decode()).replace("\r", "").splitlines())

    def __call__(self, *words: str) -> str:
        """Run, insist on success, return what it printed."""
        done = self.run(*words)
        assert done.returncode == 0, f"cathedra {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def cathedra(tmp_path: Path) -> Iterator[Shell]:
    """The command; whatever it started is stopped at the end."""
    yield Shell(tmp_path)
    state = tmp_path / "state"
    for path in (state, *(state / "clusters").glob("*")):
        stop(DataDir(path))
