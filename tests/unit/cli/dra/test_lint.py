"""``kubectl dra lint``: forms of output, exit codes, wrong calls."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main
from tests.unit.cli.dra.dumps import gpu_cluster, write_dump
from tests.unit.insight.linting.manifests import claim, device_class, selecting, yaml_of

GOOD = yaml_of(device_class(), claim(selecting('device.attributes["gpu.example.com"].model == "a100"')))
BAD = GOOD.replace("a100", "h100").replace(".driver ==", ".drver ==")


@pytest.fixture
def bad(tmp_path: Path) -> str:
    (tmp_path / "bad.yaml").write_text(BAD)
    return str(tmp_path / "bad.yaml")


def test_findings_are_exit_code_1_and_none_is_0(bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", bad]) == 1
    assert "undefined field 'drver' [cel-error]" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "good.yaml").write_text(GOOD)
    assert main(["lint", str(tmp_path / "good.yaml")]) == 0
    assert capsys.readouterr().out == "2 objects in 1 file: no findings\n"


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert main(["lint", "-"]) == 1
    assert capsys.readouterr().out.startswith("standard input:")


@pytest.mark.parametrize(("form", "field"), [("json", "findings"), ("sarif", "runs")])
def test_other_forms_are_for_programs(form: str, field: str, bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", bad, "-o", form]) == 1
    assert json.loads(capsys.readouterr().out)[field]


def test_a_dump_is_asked_for_its_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.yaml").write_text(GOOD.replace("a100", "h100"))
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    assert main(["lint", str(tmp_path / "x.yaml"), "--dump", dump]) == 0
    assert main(["lint", str(tmp_path / "x.yaml"), "--dump", dump, "--fail-on", "warning"]) == 1
    assert "matches none of 4 devices of class gpu" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/no/such"], "/no/such: there is no such file or directory"),
        (["-", "--dump", "-"], "only one of the manifests and --dump can be standard input"),
        (["x", "--dump", "y", "--cluster"], "use either a dump (--dump) or a cluster"),
        (["-", "--kubernetes-version", "9"], "unknown Kubernetes version '9'"),
    ],
)
def test_a_wrong_call_gets_one_line_and_exit_code_2(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["lint", *words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert said in printed.err


def test_the_earlier_name_of_dump_works_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "class.yaml"
    manifest.write_text("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\nspec: {}\n")
    outcomes = []
    for option in ("--dump", "--against"):
        outcomes.append((main(["lint", str(manifest), option, str(manifest), "-o", "json"]), capsys.readouterr()))
    (code, new), (old_code, old) = outcomes
    assert (code, new.out) == (old_code, old.out)
    assert new.err == ""
    assert old.err == "kubectl dra lint: warning: --against is called --dump now\n"


def test_nothing_to_check_is_no_success_unless_it_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    assert main(["lint", str(tmp_path / "values.yaml")]) == 1
    assert main(["lint", str(tmp_path / "values.yaml"), "--allow-empty"]) == 0
