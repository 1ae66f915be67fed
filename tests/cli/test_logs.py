"""``cathedra logs``: by part and node, followed, as text and JSON."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cli.conftest import Shell


def test_the_log_of_a_cluster_by_part_and_as_json(cathedra: Shell) -> None:
    cathedra("up", "--detach", "--nodes=1", "--gpus=1", "--runtime=process", "--log-format=json")
    lines = [json.loads(line) for line in cathedra("logs").splitlines()]
    assert all({"time", "level", "part", "message"} <= set(line) for line in lines)
    ready = [line for line in lines if line["message"].startswith("ready in ")]
    assert [line["part"] for line in ready] == ["cluster"]
    assert cathedra("logs", "cluster").splitlines()
    assert cathedra("logs", "no-such-part") == ""


def test_following_shows_what_comes(cathedra: Shell) -> None:
    cathedra("up", "dev", "--detach", "--nodes=0")
    command = [sys.executable, "-m", "cathedra.cli.main", "logs", "-f", "-c", "dev", "cluster"]
    following = subprocess.Popen(command, stdout=subprocess.PIPE, env=cathedra.environment, text=True)
    assert following.stdout is not None
    try:
        while "export KUBECONFIG" not in following.stdout.readline():
            pass
        cathedra("down", "dev")
        assert following.stdout.readline().endswith(" INFO    cluster device map: kubectl dra map\n")
        assert following.stdout.readline().endswith(" INFO    cluster stopped\n")
    finally:
        following.terminate()
        following.communicate(timeout=150)


def test_a_cluster_without_log_says_so(cathedra: Shell) -> None:
    done = cathedra.run("logs")
    assert (done.returncode, done.stdout) == (1, "")
    assert "only clusters that were started with --detach write one" in done.stderr
