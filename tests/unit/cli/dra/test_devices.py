"""``kubectl dra devices``: its tables, its exit codes and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main
from tests.unit.cli.dra.dumps import gpu_cluster, write_dump


def test_devices_are_listed_with_totals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster(taken=1))
    assert main(["devices", "--dump", dump]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split() == ["NODE", "DEVICE", "STATE", "HELD", "BY", "ATTRIBUTES"]
    assert "4 devices: 3 free, 1 held" in printed


def test_nothing_free_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster(taken=4))
    assert main(["devices", "--free", "--dump", dump]) == 1
    assert "no device matches" in capsys.readouterr().out


def test_json_is_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    assert main(["devices", "--dump", dump, "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["devices"]) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--class", "no"], "there is no device class 'no'"),
        (["--watch"], "--watch needs a cluster; a dump does not change"),
    ],
)
def test_a_wrong_call_gets_one_line_and_exit_code_2(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    assert main(["devices", "--dump", dump, *words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert said in printed.err
