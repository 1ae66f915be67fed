"""Candidates of shell completion, from the parsers; `tests/integration/test_completion.py` has the shells."""

from __future__ import annotations

import pytest

from cathedra.cli.dra import main as dra
from cathedra.cli.main import main


def completed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["__complete", *words]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["ver"], ["verify", ":4"]),
        (["dra", "exp"], ["explain", ":4"]),
        (["dra", "explain", "-o", "j"], ["json", ":4"]),
        (["dra", "explain", "--output=y"], ["--output=yaml", ":4"]),
        (["up", "--log-l"], ["--log-level", ":4"]),
        (["up", "--detach", "--runtime", "sim"], ["simulated", ":4"]),
        (["up", "--config", ""], [":0"]),
        (["completion", ""], ["bash", "zsh", "fish", ":4"]),
        (["driver-new", ""], [":4"]),
        (["scheduler", "--unknown", ""], [":4"]),
    ],
)
def test_words_are_completed_from_the_parsers(
    words: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert [line for line in completed(capsys, *words) if line] == lines


def test_kubectl_gets_the_candidates_of_the_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    assert dra.complete(["simulate", "--dra"]) == 0
    assert capsys.readouterr().out.splitlines() == ["--drain", ":4"]


def test_a_cluster_that_is_not_there_has_no_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert [line for line in completed(capsys, "dra", "devices", "--node", "") if line] == [":4"]
