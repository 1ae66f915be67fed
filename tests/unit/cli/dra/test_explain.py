"""``kubectl dra explain``: its answers on dumps, its exit codes, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main
from cathedra.cli.main import main as cathedra
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with, write_dump


def test_a_pod_that_fits_nowhere_is_explained_and_the_exit_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = write_dump(tmp_path / "dump.json", [*gpu_cluster(taken=2), *pod_with(2)])
    assert main(["explain", "pod/train", "--dump", dump]) == 1
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "pod default/train: does not fit" in printed.out
    assert "request 'gpus' needs 2, 1 of 2 matching devices are free (held by other/held-0)" in printed.out
    assert "free claim other/held-0 (used by pod user-0) → fits on node-0" in printed.out
    assert "lower the count of request 'gpus' of template default/gpus from 2 to 1" in printed.out
    assert "add a node like node-0" in printed.out


def test_a_pod_that_fits_has_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", [*gpu_cluster(), *pod_with(2)])
    assert main(["explain", "pod", "train", "--dump", dump]) == 0
    assert "fits on 2 of 2 nodes" in capsys.readouterr().out


def test_manifests_are_explained_as_if_they_were_applied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    manifest = write_dump(tmp_path / "train.json", pod_with(3))
    assert main(["explain", "-f", manifest, "--dump", dump]) == 1
    assert "needs 3" in capsys.readouterr().out


def test_one_node_alone_can_be_asked_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", [*gpu_cluster(taken=1), *pod_with(2)])
    assert main(["explain", "pod/train", "--dump", dump, "--node", "node-0"]) == 1
    assert main(["explain", "pod/train", "--dump", dump, "--node", "node-1"]) == 0
    assert "node-0" not in capsys.readouterr().out.rpartition("pod default/train")[2]


def test_json_carries_a_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", [*gpu_cluster(), *pod_with(3)])
    assert cathedra(["dra", "explain", "pod/train", "--dump", dump, "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["apiVersion"], answer["kind"], answer["fits"]) == ("cathedra.dev/v1", "Explanation", False)
    assert answer["causes"][0]["kind"] == "reach"


@pytest.mark.parametrize("columns", ["80", "160"])
def test_lines_keep_to_the_width(
    columns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    dump = write_dump(tmp_path / "dump.json", [*gpu_cluster(taken=3), *pod_with(2)])
    main(["explain", "pod/train", "--dump", dump])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= int(columns)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain"], "name what to explain, such as pod/NAME, or give -f FILE"),
        (["explain", "pod/no", "--dump", "DUMP"], "there is no pod 'no' in namespace 'default'"),
        (["explain", "pod/train", "-n", "other", "--dump", "DUMP"], "but one in default; say -n default"),
        (["explain", "spoon/a", "--dump", "DUMP"], "'spoon/a' is not of the form KIND/NAME"),
        (["explain", "pod/train", "--dump", "/no/such"], "/no/such: there is no such file or directory"),
        (["explain", "pod/train", "--dump", "DUMP", "--node", "n9"], "there is no node 'n9'"),
        (["explain", "pod/train", "--dump", "DUMP", "--kubernetes-version", "9"], "unknown Kubernetes version '9'"),
        (["explain", "pod/train", "--kubeconfig", "/no/such"], "/no/such"),
    ],
)
def test_a_wrong_call_gets_one_line_and_exit_code_2(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = write_dump(tmp_path / "dump.json", [*gpu_cluster(), *pod_with(1)])
    assert main([dump if word == "DUMP" else word for word in words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("kubectl dra: ")
    assert said in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("command", ["explain", "rights"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"kubectl dra {command}" in capsys.readouterr().out.partition("examples:")[2]
