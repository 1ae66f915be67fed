"""``cathedra cdi``: documents listed, checked, resolved and applied."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cathedra.cli.main import main
from cathedra.files.atomic import write_atomic

KIND = "lamps.example.com/lamp"


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """A directory with one lamp."""
    return directory(tmp_path / "static", lamp={"env": ["LAMP=static"]})


def directory(path: Path, **devices: Any) -> Path:
    """A directory whose document has these devices."""
    path.mkdir()
    write(path / "lamps.json", **devices)
    return path


def write(path: Path, **devices: Any) -> None:
    entries = [{"name": name, "containerEdits": edits} for name, edits in devices.items()]
    write_atomic(path, json.dumps({"cdiVersion": "0.6.0", "kind": KIND, "devices": entries}).encode(), mode=0o644)


def call(*words: str | Path) -> int:
    return main(["cdi", *map(str, words)])


def test_devices_are_listed_with_their_edits_and_document(static: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list", "--cdi-dir", static) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [["NAME", "EDITS", "FILE"], [f"{KIND}=lamp", "1", "variable", str(static / "lamps.json")]]


def test_a_device_in_a_directory_of_lower_priority_is_told_as_shadowed(
    static: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dynamic = directory(tmp_path / "dynamic", lamp={"env": ["LAMP=dynamic"]})
    assert call("list", "--cdi-dir", static, "--cdi-dir", dynamic) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == f"shadowed: {KIND}=lamp of {static}/lamps.json by {dynamic}/lamps.json"


def test_conflicts_and_broken_documents_are_faults(static: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(static / "again.json", lamp={"env": ["LAMP=again"]})
    (static / "broken.yaml").write_text("cdiVersion: [")
    assert call("list", "--cdi-dir", static, "-o", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["items"] == []
    assert [Path(fault["file"]).name for fault in answer["faults"]] == ["again.json", "broken.yaml", "lamps.json"]
    assert f'conflicting device "{KIND}=lamp"' in answer["faults"][0]["messages"][0]


def test_no_devices_are_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list", "--cdi-dir", tmp_path / "missing") == 0
    assert capsys.readouterr().out == f"no devices in {tmp_path / 'missing'}\n"


def test_validation_tells_each_document_what_is_wrong_with_it(
    static: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.json"
    write(wrong, lamp={"env": ["no variable"]})
    assert call("validate", static, wrong) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{static}/lamps.json: valid, {KIND}, 1 device, version 0.6.0, needs 0.3.0",
        f'{wrong}: invalid container edits, invalid environment variable "no variable"',
    ]


def test_validation_of_a_directory_names_conflicts(static: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(static / "again.json", lamp={"env": ["LAMP=again"]})
    assert call("validate", static) == 1
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_edits_of_several_devices_are_one(static: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(static / "lamps.json", lamp={"env": ["A=1"]}, other={"env": ["B=2"]})
    assert call("resolve", f"{KIND}=other", f"{KIND}=lamp", "--cdi-dir", static) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["containerEdits"], answer["files"]) == ({"env": ["B=2", "A=1"]}, [str(static / "lamps.json")])


def test_edits_are_made_in_a_runtime_spec_from_standard_input(
    static: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"ociVersion": "1.0.2", "process": {"env": ["PATH=/bin"]}, "root": {"path": "rootfs"}, "mounts": None}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(spec).encode())))
    assert call("apply", f"{KIND}=lamp", "--cdi-dir", static) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["process"], answer["root"]) == ({"env": ["PATH=/bin", "LAMP=static"]}, {"path": "rootfs"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["resolve", "lamps.example.com/lamp=none"],
            "unresolvable CDI devices lamps.example.com/lamp=none (documents in",
        ),
        (["apply", f"{KIND}=lamp", "--spec", "list.json"], "is no OCI runtime spec: Expected `object`, got `array`"),
        (["apply", f"{KIND}=lamp", "--spec", "number.json"], "Expected `array`, got `int` - at `$.process.env`"),
        (["apply", f"{KIND}=lamp", "--spec", "none.json"], "none.json: No such file or directory"),
        (["apply", f"{KIND}=nodes", "--spec", "spec.json"], "/dev/cathedra-has-no-such-device"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_one_line(
    words: list[str],
    said: str,
    static: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(
        static / "lamps.json",
        lamp={"env": ["A=1"]},
        nodes={"deviceNodes": [{"path": "/dev/cathedra-has-no-such-device"}]},
    )
    monkeypatch.chdir(tmp_path)
    Path("list.json").write_text("[]")
    Path("number.json").write_text('{"ociVersion": "1.0.2", "process": {"env": 3}}')
    Path("spec.json").write_text('{"ociVersion": "1.0.2"}')
    assert call(*words, "--cdi-dir", static) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert said in error


def test_a_watched_directory_tells_what_comes_changes_and_goes(static: Path) -> None:
    words = [sys.executable, "-m", "cathedra.cli.main", "cdi", "list", "--watch", "--cdi-dir", str(static)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        seen = [program.stdout.readline() for _ in range(2)]
        assert f"{KIND}=lamp" in seen[1]
        file = static / "new.json"
        for change, said in (
            (lambda: write(file, new={"env": ["A=1"]}), f"added: {KIND}=new in {file}"),
            (lambda: write(file, new={"env": ["A=2"]}), f"changed: {KIND}=new in {file}"),
            (file.unlink, f"removed: {KIND}=new"),
        ):
            change()
            assert program.stdout.readline().rstrip() == said
        program.terminate()
