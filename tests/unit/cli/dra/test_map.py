"""``kubectl dra map`` serves a page whose address it prints, and refuses what it cannot open in one line."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main
from tests.unit.cli.dra.dumps import gpu_cluster, write_dump


def test_it_prints_an_address_and_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    command = [sys.executable, "-m", "cathedra.cli.dra.main", "map", "--dump", dump]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.fullmatch(r"the device map is at (http://127\.0\.0\.1:\d+/)#(\S{20,})\n", server.stdout.readline())
        assert found is not None
        headers = {"Authorization": f"Bearer {found[2]}", "Content-Type": "application/json"}
        question = urllib.request.Request(f"{found[1]}engine", b'{"question":"map","id":1}', headers)
        with urllib.request.urlopen(question) as answer:
            assert answer.read().count(b'"state":"free"') == 4
        server.terminate()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--dump", "no-such-file.yaml"], "no-such-file.yaml"),
        (["--kubeconfig", "no-such-file"], "no-such-file"),
        (["--port", "x"], "--port"),
        (["--port", "70000"], "--port"),
    ],
)
def test_what_it_cannot_open_is_refused_in_one_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["map", *words])
    except SystemExit as ended:
        code = int(str(ended.code))
    error = capsys.readouterr().err
    assert code == 2
    assert why in error
    assert error.count("\n") == 1
