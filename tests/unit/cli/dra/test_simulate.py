"""``kubectl dra simulate``: its answers, its exit codes and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main
from cathedra.insight import ClusterState
from cathedra.insight.reading.questions import question_of
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with, write_dump
from tests.unit.scheduler.objects import claim, device_class, node, pod, slice_


def test_a_pod_that_is_placed_has_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    pod = write_dump(tmp_path / "pod.json", pod_with(2))
    assert main(["simulate", "--dump", dump, "-f", pod]) == 0
    printed = capsys.readouterr()
    assert "+ default/train → node-" in printed.out
    assert "1 more would fit" in printed.out
    assert printed.err == ""


def test_a_pod_that_stays_pending_has_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    pod = write_dump(tmp_path / "pod.json", pod_with(3))
    assert main(["simulate", "--dump", dump, "-f", pod, "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["pending"][0]["pods"] == ["default/train"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--drain", "no"], "there is no node 'no'"),
        (["--copies", "-1"], "--copies must not be negative, got -1"),
        (["-f", "/no/such"], "/no/such: there is no such file or directory"),
        (["-f", "-", "--dump", "-"], "only one of --dump and --apply can be standard input"),
    ],
)
def test_a_wrong_call_gets_one_line_and_exit_code_2(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    assert main(["simulate", "--dump", dump, *words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert said in printed.err


def test_a_logged_question_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [node("n1"), slice_("n1"), device_class(), claim("a")]
    waits = pod("a", resourceClaims=[{"name": "gpu", "resourceClaimName": "a"}])
    (tmp_path / "log").write_text(question_of(waits, "n1", ClusterState.of([*objects, waits])).to_line())
    assert main(["simulate", "--replay", str(tmp_path / "log")]) == 0
    assert "+ default/a → n1 (gpu-0)" in capsys.readouterr().out
    assert main(["simulate", "--replay", str(tmp_path / "log"), "--dump", "x"]) == 2
