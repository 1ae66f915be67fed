"""A whole cluster of its own process, and the real kubectl to talk to it."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.process.background import stop
from tests.requirements import kubectl_path

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
_KUBECTLS = Path("/usr/lib/google-cloud-sdk/bin")
"""Directory in which Debian's package google-cloud-cli has the kubectl of each release."""


@dataclass(frozen=True)
class RunningCluster:
    """A cluster started with ``cathedra up --detach``."""

    data: DataDir
    options: tuple[str, ...]

    @property
    def kubeconfig(self) -> Path:
        return self.data.kubeconfig

    def up(self) -> None:
        """Start it (again) on its data directory."""
        command = [sys.executable, "-m", "cathedra.cli.main", "up", "--detach", "--no-merge"]
        command += [f"--data-dir={self.data.path}", *self.options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
        log = self.data.log.read_text() if self.data.log.exists() else ""
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{log}"

    def down(self) -> None:
        """Stop it; its objects stay."""
        stop(self.data)


@pytest.fixture(scope="session", autouse=True)
def _own_state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands note clusters of ``--data-dir`` in the state directory: not in that of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CATHEDRA_DATA_DIR", str(tmp_path_factory.mktemp("state") / "cathedra"))
        yield


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=EXAMPLES.parent, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def start_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., RunningCluster]]:
    """Starts clusters and stops whatever of them still runs at the end of the module."""
    started: list[RunningCluster] = []

    def start(*options: str, beside: RunningCluster | None = None) -> RunningCluster:
        """Start a cluster; ``beside`` another on the same store, with the keys of that."""
        cluster = RunningCluster(DataDir(tmp_path_factory.mktemp("cluster")), options)
        if beside is not None:
            shutil.copytree(beside.data.path / "pki", cluster.data.path / "pki")
        started.append(cluster)
        cluster.up()
        return cluster

    yield start
    for cluster in started:
        cluster.down()


class Kubectl:
    """The real kubectl, aimed at one cluster."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.program = kubectl_path()
        self.environment = os.environ | {
            "KUBECONFIG": str(cluster.kubeconfig),
            "HOME": str(cluster.data.path),
            "KUBECTL_CACHE_DIR": str(cluster.data.path / "kubectl-cache"),
        }

    def with_variables(self, **variables: str) -> Kubectl:
        """The same with more environment variables."""
        made = copy.copy(self)
        made.environment = self.environment | variables
        return made

    def of_release(self, release: str) -> Kubectl:
        """The same with the kubectl of a release, where that is found."""
        program = _KUBECTLS / f"kubectl.{release}"
        return self.with_program(str(program)) if program.exists() else self

    def with_program(self, program: str) -> Kubectl:
        """The same with another kubectl."""
        made = copy.copy(self)
        made.program = program
        return made

    def run(self, *words: str, stdin: str = "", timeout: float = 150) -> subprocess.CompletedProcess[str]:
        """Run and return whatever happens."""
        return subprocess.run(
            [self.program, *words],
            input=stdin,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def __call__(self, *words: str, stdin: str = "", timeout: float = 150) -> str:
        """Run, insist on success, return what it printed."""
        done = self.run(*words, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start without waiting, as for ``get --watch``."""
        return subprocess.Popen(
            [self.program, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
