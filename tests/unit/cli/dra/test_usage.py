"""``kubectl dra usage``: its tables, formats and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main

DUMP = ["--dump", str(Path(__file__).parents[4] / "examples" / "insight" / "cluster.yaml")]


def test_namespaces_are_shown_with_their_devices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "-A", *DUMP]) == 0
    assert "NAMESPACE" in capsys.readouterr().out


def test_json_obeys_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "-A", "--by", "node", "-o", "json", *DUMP]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["kind"], answer["by"]) == ("UsageReport", "node")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--history", "/no/such.db"], "/no/such.db: there is no such file"),
        (["-A", "-n", "x"], "give either --all-namespaces or --namespace"),
    ],
)
def test_a_wrong_call_gets_one_line_and_exit_code_2(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", *words, *DUMP]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert text in printed.err
