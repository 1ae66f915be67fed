"""``kubectl dra devices``: its tables, its exit codes and its errors."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main
from cathedra.testing import ClusterOptions, DRACluster
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


class Screens(io.StringIO):
    """A terminal on which the user presses Ctrl-C after a number of screens."""

    def __init__(self, between: Callable[[], object]) -> None:
        super().__init__()
        self._between = between

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        written = super().write(text)
        shown = self.getvalue().count(" devices: ")
        if "devices: " in text and shown == 1:
            self._between()
        if "devices: " in text and shown == 2:
            raise KeyboardInterrupt
        return written


def test_what_is_watched_is_shown_again_after_a_change_and_in_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    with DRACluster(ClusterOptions(profile="gaudi3-8"), tmp_path) as cluster:
        screens = Screens(lambda: cluster.add_nodes())
        monkeypatch.setattr(sys, "stdout", screens)
        assert main(["devices", "-w", "--kubeconfig", str(cluster.kubeconfig)]) == 130
    text = screens.getvalue()
    assert "8 devices: 8 free" in text
    assert "16 devices: 16 free" in text
    assert "\x1b[1;32mfree" in text
