"""Each command as it is meant, on terminals of 80 and 160 columns and piped."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml

from tests.cli.conftest import Screen, Shell


@pytest.fixture(params=["piped", 80, 160])
def ask(request: pytest.FixtureRequest, cathedra: Shell) -> Callable[..., Screen]:
    """Calls ``cathedra`` in one of the surroundings."""

    def call(*words: str) -> Screen:
        if isinstance(request.param, int):
            return cathedra.on_a_terminal(request.param, *words)
        done = cathedra.run(*words)
        return Screen(done.returncode, (done.stdout + done.stderr).splitlines())

    return call


def test_a_cluster_from_up_to_delete(ask: Callable[..., Screen], cathedra: Shell) -> None:
    def said(*words: str) -> str:
        screen = ask(*words)
        text = "\n".join(screen.lines)
        assert screen.code == 0, text
        assert "Traceback" not in text
        return text

    assert said("list") == "no clusters; start one with: cathedra up --detach"
    up = said("up", "dev", "--detach", "--nodes=2", "--gpus=1", "--runtime=process")
    assert "2 nodes Ready, 1 device of gpu.example.com on each" in up
    assert "stop it with: cathedra down dev" in up
    assert said("list").splitlines()[1].startswith("dev    running (")
    status = said("status", "dev")
    assert "2 of 2 nodes ready; 2 devices: 2 free; 0 claims, 0 allocated; 0 pods" in " ".join(status.split())
    assert json.loads(said("status", "dev", "-o", "json"))["kind"] == "ClusterOverview"
    assert json.loads(said("list", "-o", "json"))["items"][0]["name"] == "dev"
    assert "ready in" in said("logs", "-c", "dev")
    assert yaml.safe_load(said("kubeconfig", "dev"))["current-context"] == "cathedra-dev"
    assert "backed up the cluster dev" in said("backup", "-c", "dev", "saved")
    assert "stopped the cluster dev" in said("down", "dev")
    assert "2 nodes Ready" in said("up", "dev", "--detach")
    assert "restored the cluster dev" in said("restore", "-c", "dev", "saved")
    assert "deleted the cluster dev" in said("delete", "dev")
    assert said("list") == "no clusters; start one with: cathedra up --detach"
    assert not (cathedra.home / "state" / "clusters" / "dev").exists()


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("words", ["--help", "up --help", "status --help", "list"])
def test_help_is_no_wider_than_the_terminal(words: str, columns: int, cathedra: Shell) -> None:
    screen = cathedra.on_a_terminal(columns, *words.split())
    assert screen.code == 0
    assert max(map(len, screen.lines)) <= columns
