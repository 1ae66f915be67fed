"""``kubectl dra convert``: printed or in place, notes on standard error, wrong calls."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main
from tests.unit.insight.conversion.test_convert import NEW, OLD
from tests.unit.insight.conversion.test_deviceplugin import POD


@pytest.fixture
def old(tmp_path: Path) -> Path:
    (tmp_path / "old.yaml").write_text(OLD)
    (tmp_path / "old.yaml").chmod(0o640)
    return tmp_path / "old.yaml"


def test_the_text_is_printed_and_the_file_stays(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(old)]) == 0
    assert capsys.readouterr() == (NEW, "")
    assert old.read_text() == OLD


def test_files_are_written_in_place_with_their_rights(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(old), "--to", "v1", "-i"]) == 0
    assert (old.read_text(), old.stat().st_mode & 0o777) == (NEW, 0o640)
    assert capsys.readouterr() == ("", f"{old}: ResourceClaimTemplate/gpus: v1beta1 → v1\n")
    assert main(["convert", str(old), "-i"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_link_out_of_its_folder_is_not_written_through(
    old: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Manifests from another author could name any file of the user by a link."""
    outside = tmp_path_factory.mktemp("home") / "mine.yaml"
    outside.write_text(OLD)
    (old.parent / "z-link.yaml").symlink_to(outside)
    assert main(["convert", str(old.parent), "-i"]) == 2
    assert f"it is a link to {outside}, outside its folder; nothing was written" in capsys.readouterr().err
    assert (old.read_text(), outside.read_text()) == (OLD, OLD)


def test_a_link_within_its_folder_is_followed(old: Path) -> None:
    (old.parent / "link.yaml").symlink_to("old.yaml")
    assert main(["convert", str(old.parent / "link.yaml"), "-i"]) == 0
    assert old.read_text() == NEW
    assert (old.parent / "link.yaml").is_symlink()


@pytest.mark.parametrize("words", [["convert"], ["convert", "--from-device-plugin"], ["lint"], ["devices", "--dump"]])
@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 5000 + "1" + "}" * 5000,
        "a: " + "[" * 5000,
        "kind: List\nitems: 1.5\n",
        "kind: PodList\nitems: {a: 1}\n",
    ],
    ids=["deep JSON", "deep YAML", "items is a number", "items is a mapping"],
)
def test_deep_texts_and_lists_without_a_list_are_no_tracebacks(words: list[str], text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(text)
    assert main([*words, str(tmp_path / "odd.json")]) in (0, 1, 2)


def test_several_files_are_documents_of_one(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(old), str(old)]) == 0
    assert capsys.readouterr().out == f"{NEW}---\n{NEW}"


def test_standard_input_is_read_and_json_is_for_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    assert main(["convert", "-", "--from-device-plugin", "-o", "json"]) == 0
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert (answer["kind"], len(answer["files"][0]["changes"])) == ("Conversion", 1)
    assert "standard input: note: class gpu.nvidia.com: the driver's installation" in printed.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-", "-i"], "standard input cannot be written in place"),
        (["x", "--from-device-plugin", "--to", "v1"], "--from-device-plugin makes objects of v1"),
        (["x", "--resource", "a/b"], "--resource goes with --from-device-plugin"),
        (["/no/such"], "/no/such: there is no such file or directory"),
        (["-"], "standard input"),
    ],
)
def test_a_wrong_call_gets_one_line_and_exit_code_2(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: [\n")))
    assert main(["convert", *words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert said in printed.err
