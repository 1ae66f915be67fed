"""``kubectl dra moves`` and ``kubectl dra defrag``: their answers, exit codes and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main

DUMP = ["--dump", str(Path(__file__).parents[4] / "examples" / "insight" / "fragmented.yaml")]
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpus}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu.example.com, count: COUNT}}]}}
"""


def manifest(path: Path, count: int) -> str:
    path.write_text(CLAIM.replace("COUNT", str(count)))
    return str(path)


def test_a_plan_has_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["moves", "--for", "pod/train", *DUMP]) == 0
    printed = capsys.readouterr().out
    assert "pod default/train: fits after 1 claim moved" in printed
    assert "a simulation of these steps ends with nodes for all pods" in printed


def test_no_plan_has_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["moves", "-f", manifest(tmp_path / "claim.yaml", 9), "--most", "4", *DUMP, "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["kind"], answer["fits"], answer["complete"]) == ("MovePlan", False, True)


def test_a_plan_against_fragmentation_has_exit_code_0_if_it_gains(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["defrag", "--most", "1", *DUMP]) == 0
    assert "gpu.example.com  16       8     4        5" in capsys.readouterr().out
    assert main(["defrag", "--most", "0", *DUMP]) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["moves"], "say what needs room: --for pod/NAME, or -f FILE"),
        (["moves", "--for", "pod/no"], "there is no pod 'no'"),
        (["moves", "--for", "pod/train", "--apply"], "--apply needs a cluster"),
        (["moves", "--for", "pod/train", "--count", "0"], "--count must be at least 1, got 0"),
        (["moves", "--for", "pod/train", "--most", "-1"], "--most must not be negative"),
        (["defrag", "--class", "no"], "there is no device class 'no'"),
        (["defrag", "--trials", "0"], "--trials must be at least 1"),
    ],
)
def test_a_wrong_call_gets_one_line_and_exit_code_2(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *DUMP]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert text in printed.err


def test_an_object_that_the_server_would_refuse_is_named_with_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = manifest(tmp_path / "claim.yaml", -1)
    assert main(["moves", "-f", path, *DUMP]) == 2
    printed = capsys.readouterr().err
    assert path in printed
    assert "Invalid value: -1" in printed
