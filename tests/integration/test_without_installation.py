"""The README's first commands once the package is published, here with the wheel of this checkout: uvx and pipx run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.wheelhouse import pack


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package index in small: what cathedra requires, as it is installed here."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    pack(folder, "cathedra", "pip")
    return folder


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of this environment with a home directory, caches and settings of its own."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(
        [sys.executable, "-m", *words],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_uvx_runs_the_demo(dependencies: Path, wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("uv", reason="pip install uv")
    options = ["--python", sys.executable, "--no-index", "--find-links", str(dependencies), "--from", str(wheel)]
    done = run(tmp_path, "uv", "tool", "run", *options, "cathedra", "demo")
    assert done.returncode == 0, done.stderr
    assert "Why pods wait" in done.stdout


def test_pipx_runs_the_command(dependencies: Path, wheel: Path, tmp_path: Path) -> None:
    """Not the demo once more: what it needs is in the same environment."""
    pytest.importorskip("pipx", reason="pip install pipx")
    offline = f"--pip-args=--no-index --find-links={dependencies}"
    done = run(tmp_path, "pipx", "run", offline, "--spec", str(wheel), "cathedra", "profiles", "h100-8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("h100-8: ")
