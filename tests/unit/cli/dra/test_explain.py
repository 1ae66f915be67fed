"""``kubectl dra explain``: its answers on dumps, its exit codes, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
        (["explain", "pod/a", "-f", "FILE"], "give either names, such as pod/NAME, or -f FILE"),
        (["explain", "pod/a", "-A"], "--all-namespaces is for all that waits"),
        (["explain", "jobs", "--dump", "DUMP"], "there is no job in namespace 'default'"),
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


def renamed(objects: list[dict[str, Any]], name: str, namespace: str = "default") -> list[dict[str, Any]]:
    """The objects with another name of their pod, in another namespace."""
    text = json.dumps(objects)
    found: list[dict[str, Any]] = json.loads(text)
    for one in found:
        one["metadata"]["namespace"] = namespace
        if one["kind"] == "Pod":
            one["metadata"] |= {"name": name, "uid": f"{namespace}/{name}"}
    return found


def test_all_that_waits_is_listed_by_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [one for name in ("a", "b") for one in renamed(pod_with(3), name, "team")]
    alone = renamed(pod_with(1), "lost")[1:]
    dump = write_dump(tmp_path / "dump.json", [*gpu_cluster(), *many, *alone])
    assert main(["explain", "-A", "--dump", dump]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 objects wait in all namespaces"
    assert [line for line in lines if line.startswith("    ") and "/" in line] == [
        "    pod team/a, pod team/b",
        "    pod default/lost",
    ]
    assert lines[1].startswith("2 × does not fit: ")
    assert main(["explain", "-n", "team", "--dump", dump, "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["kind"], len(answer["groups"]), answer["fits"]) == ("ExplanationOverview", 1, False)


def test_nothing_waits_with_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster(taken=1))
    assert main(["explain", "--dump", dump]) == 0
    assert capsys.readouterr().out.startswith("nothing waits in namespace default")


@pytest.mark.parametrize("words", [["pod", "a", "b"], ["pod/a", "pod/b"], ["a", "b"], ["pods"]])
def test_several_subjects_are_explained_together(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [one for name in ("a", "b") for one in renamed(pod_with(3), name)]
    dump = write_dump(tmp_path / "dump.json", [*gpu_cluster(), *many])
    assert main(["explain", *words, "--dump", dump]) == 1
    assert "pod default/a, pod default/b" in capsys.readouterr().out
