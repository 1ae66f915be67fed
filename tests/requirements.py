"""Requirements of tests: programs, with a message that names a missing one and how to install it, and memos."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import playground

from cathedra.remembering import IS_ON

__all__ = [
    "container_mounts",
    "container_runtime",
    "image_root",
    "kubectl_path",
    "oldest_kubectl",
    "program",
    "pyodide_bundle",
    "root",
    "with_memos",
]

with_memos = pytest.mark.skipif(not IS_ON, reason="memos are switched off: CATHEDRA_REMEMBER=0")
"""Tests of what memos keep, which are no rules of the behaviour."""
HIDDEN = "CATHEDRA_HIDDEN_PROGRAMS"
"""Names, separated by commas, of programs that are treated as missing (`tools/bare.py`)."""
_PACKAGES = {
    "buildah": "apt-get install buildah",
    "busybox": "apt-get install busybox-static",
    "chromium": "apt-get install chromium",
    "containerd": "apt-get install containerd",
    "crun": "apt-get install crun",
    "ctr": "apt-get install containerd",
    "etcd": "apt-get install etcd-server",
    "fish": "apt-get install fish",
    "gcc": "apt-get install gcc",
    "node": "apt-get install nodejs npm",
    "runc": "apt-get install runc",
    "valgrind": "apt-get install valgrind",
    "zsh": "apt-get install zsh",
}


def program(name: str) -> str:
    """The path of ``name``; the test is skipped where it is missing (or fails, with CATHEDRA_REQUIRE_ALL=1)."""
    found = shutil.which(name)
    if found is None and name not in os.environ.get(HIDDEN, "").split(","):
        found = shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")
    if found is None:
        _missing(f"{name} is not installed; get it with: {_PACKAGES[name]}")
    return found or ""


def kubectl_path() -> str:
    """The newest real kubectl: ``$KUBECTL``, a versioned one beside the one on the path, or that one."""
    if chosen := os.environ.get("KUBECTL"):
        return chosen
    found = shutil.which("kubectl")
    if found is None:
        _missing("kubectl is not installed; get it from your distribution or set KUBECTL=/path/to/kubectl")
        return ""
    beside = Path(found).resolve().parent.glob("kubectl.1.*")
    newest = max(beside, key=lambda path: int(path.name.rpartition(".")[2]), default=None)
    return str(newest or found)


def oldest_kubectl() -> str:
    """The oldest of the versioned programs beside kubectl; the only one where there is no other."""
    newest = Path(kubectl_path())
    beside = newest.parent.glob("kubectl.1.*")
    return str(min(beside, key=lambda path: int(path.name.rpartition(".")[2]), default=newest))


def root() -> None:
    """Skip unless root: overlay mounts, device nodes and files of other users need it."""
    if os.geteuid() != 0:
        _missing("root is needed for mounts, device nodes and owners; run the tests with sudo to include this one")


def container_runtime(name: str) -> str:
    """``name``, once what it needs is there: ``process`` needs nothing, crun and runc need themselves and root."""
    if name != "process":
        root()
        program(name)
    return name


@contextlib.contextmanager
def image_root(name: str) -> Iterator[Path]:
    """The root file system of an image within the block."""
    root()
    buildah = program("buildah")
    made = subprocess.run([buildah, "from", "--pull-never", name], capture_output=True, text=True, check=False)
    if made.returncode:
        _missing(f"the image {name} is not built; build it with: make image")
    container = made.stdout.strip()
    try:
        mounted = subprocess.run([buildah, "mount", container], capture_output=True, text=True, check=True)
        yield Path(mounted.stdout.strip())
    finally:
        subprocess.run([buildah, "rm", container], capture_output=True, check=True)


def container_mounts() -> None:
    """Skip where containers are plain processes, which have the host's files: no runtime is there, or no root."""
    root()
    if not any(shutil.which(name) for name in ("crun", "runc")):
        _missing(
            "crun and runc are not installed, and plain processes have no mounts; get it with: apt-get install crun"
        )


def pyodide_bundle() -> Path:
    """The engine's bytecode for WebAssembly; skipped without node, the npm package, or the compiled package."""
    program("node")
    if not playground.PYODIDE.exists() or not playground.wheels():
        _missing("Pyodide is not downloaded; get it with: python -m tools.playground --download")
    return playground.compiled_bundle()


def _missing(why: str) -> None:
    if os.environ.get("CATHEDRA_REQUIRE_ALL") == "1":
        pytest.fail(why)
    pytest.skip(why)
