"""``cathedra profiles``: lists, shows, and makes profiles of nodes in dumps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cathedra.cli.main import main
from cathedra.profiles import profile_names, read_profile
from tests.unit.cli.dra.dumps import gpu_cluster, write_dump


def test_all_are_listed_with_their_devices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:] if not line.startswith(" ")] == list(profile_names())
    assert "h100-8-mig    208       gpu.nvidia.com" in "\n".join(lines)


def test_programs_get_them_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["apiVersion"], found["kind"]) == ("cathedra.dev/v1", "ProfileList")
    tray = next(one for one in found["items"] if one["name"] == "gb200-4")
    assert tray["devices"] == {"gpu.nvidia.com": 4, "compute-domain.nvidia.com": 2}
    assert tray["unconfirmed"]


def test_one_is_shown_with_what_is_not_confirmed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles", "h200-8"]) == 0
    printed = capsys.readouterr().out
    assert "8 devices of gpu.nvidia.com, pool NODE" in printed
    assert "not confirmed: the memory of 7g.141gb" in printed


def test_a_shown_profile_is_a_file_to_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles", "gaudi3-8", "-o", "yaml"]) == 0
    file = tmp_path / "mine.yaml"
    file.write_text(capsys.readouterr().out)
    assert read_profile(file).drivers == ("gaudi.intel.com",)


def test_a_node_of_a_dump_becomes_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    file = tmp_path / "ours.yaml"
    assert main(["profiles", "import", dump, "--node", "node-1", "-o", str(file)]) == 0
    assert capsys.readouterr().out == f"2 of gpu.example.com; use it with: cathedra up --profile {file}\n"
    assert read_profile(file).name == "ours"
    assert main(["profiles", "import", dump, "--node", "node-1", "--name", "named"]) == 0
    assert "  name: named\n" in capsys.readouterr().out


def test_a_node_that_is_not_in_the_dump_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    assert main(["profiles", "import", dump, "--node", "no"]) == 2
    assert "there is no node 'no'" in capsys.readouterr().err
