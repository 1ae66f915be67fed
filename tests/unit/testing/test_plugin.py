"""The plugin in a pytest of its own: it costs nothing where it is not used, and a failing test prints why pods wait."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import cathedra
from tests.unit.testing.manifests import pod_with

ROOT = Path(__file__).parents[3]
INERT = """
import sys

def test_nothing_is_loaded():
    loaded = {name for name in sys.modules if name.split(".")[0] == "cathedra"}
    assert loaded == {"cathedra", "cathedra.testing", "cathedra.testing.plugin"}
    assert not {"msgspec", "yaml", "httptools", "grpc"} & set(sys.modules)
"""
FAILING = '''
import pytest

WAITS = """MANIFEST"""

@pytest.mark.dra_cluster(profile="gaudi3-8")
def test_fails(apply, wait_for, advance, kubeconfig):
    apply(WAITS)
    wait_for("pod/train", "condition=PodScheduled=False")
    advance(60)
    assert kubeconfig.read_text() == ""

@pytest.mark.dra_cluster(node=3)
def test_wrong_option(dra_cluster):
    pass
'''.replace("MANIFEST", pod_with(9, "gaudi.intel.com"))


def run_pytest(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a test file in a process of its own, with this plugin and no other."""
    (folder / "test_it.py").write_text(text)
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "120"}
    environment["PYTHONPATH"] = str(Path(cathedra.__file__).parents[1])
    words = ["-p", "cathedra.testing.plugin", "--strict-markers", "-p", "no:cacheprovider", "-q", "test_it.py"]
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_nothing_is_loaded_where_no_fixture_is_used(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, INERT)
    assert done.returncode == 0, done.stdout


def test_a_failing_test_says_why_pods_wait_and_a_wrong_option_is_one_line(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, FAILING)
    assert done.returncode == 1
    assert "pods that wait in dra_cluster" in done.stdout
    assert "pod default/train: does not fit" in done.stdout
    assert "request 'devices' needs 9, 8 devices in reach" in done.stdout
    assert "dra_cluster: dra_cluster has no option 'node'; it has nodes, profile" in done.stdout
    assert "1 failed, 1 error" in done.stdout


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    """Under the module's own name, so that ``-p cathedra.testing.plugin`` is the same plugin and not a second one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name = "cathedra.testing.plugin"
    assert project["entry-points"]["pytest11"] == {name: name}
