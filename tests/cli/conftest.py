"""A user's surroundings: a home, a kubeconfig and a state directory of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cathedra.cluster.background import stop
from cathedra.cluster.datadir import DataDir


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
            command, capture_output=True, text=True, timeout=90, check=False, env=self.environment, cwd=self.home
        )

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
