"""Completion scripts in real shells, and kubectl's completion of the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cathedra.cli.completion import SHELLS
from tests.integration.conftest import Kubectl, RunningCluster
from tests.requirements import kubectl_path, program

BASH = """source {script}
COMP_LINE={line!r} COMP_POINT={length}
_cathedra
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """compdef() {{ }}
compadd() {{ print -l -- "${{@[2,-1]}}" }}
source {script}
words=({line}) CURRENT=${{#words}}
_cathedra
"""
FISH = """source {script}
complete -C {line!r}
"""
SOURCED = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Programs of this checkout on the path, whichever are installed."""
    for name, function in (("cathedra", "cathedra"), ("kubectl_complete-dra", "kubectl_complete_dra")):
        file = tmp_path / name
        file.write_text(
            f"#!{sys.executable}\nimport sys\nfrom cathedra.cli.entry import {function}\nsys.exit({function}())\n"
        )
        file.chmod(0o755)
    plugin = tmp_path / "kubectl-dra"
    plugin.write_text("#!/bin/sh\n")
    plugin.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "found"),
    [("cathedra dra exp", "explain"), ("cathedra dra explain -o js", "json"), ("cathedra veri", "verify")],
)
def test_a_shell_completes_by_its_script(
    shell: str, line: str, found: str, environment: dict[str, str], tmp_path: Path
) -> None:
    path = program(shell) if shell != "bash" else "bash"
    script = tmp_path / "script"
    script.write_text(SHELLS[shell])
    source = SOURCED[shell].format(script=script, line=line, length=len(line))
    done = subprocess.run([path, "-c", source], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [found], done.stderr


def test_kubectl_completes_the_names_of_a_cluster(
    start_cluster: Callable[..., RunningCluster], environment: dict[str, str]
) -> None:
    cluster = start_cluster("--nodes=1", "--gpus=1")
    Kubectl(cluster)("create", "namespace", "team-a")
    environment["KUBECONFIG"] = str(cluster.data.kubeconfig)

    def completed(*words: str) -> list[str]:
        command = [kubectl_path(), "__complete", "dra", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        return done.stdout.split()

    assert completed("devices", "--node", "") == ["node-0", ":4"]
    assert completed("explain", "-n", "team") == ["team-a", ":4"]
    cluster.down()
