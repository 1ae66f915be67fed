"""``cathedra mcp``: what it cannot open is one line, and it ends with its input or by Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cathedra.cli.main import main
from tests.unit.cli.dra.dumps import gpu_cluster, write_dump

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"test","version":"1"}}}\n'
)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--dump", "no-such-file.yaml"], "no-such-file.yaml"),
        (["--kubeconfig", "no-such-file"], "no-such-file"),
        (["--dump", "-"], "--dump -: standard input has the messages of the agent; name a file"),
    ],
)
def test_what_it_cannot_open_is_one_line_and_exit_code_2(words: list[str], why: str) -> None:
    pytest.importorskip("mcp", reason="the SDK mcp is missing: pip install 'cathedra[mcp]'")
    command = [sys.executable, "-m", "cathedra.cli.main", "mcp", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("missing", ["mcp", "mcp_types"])
def test_without_the_sdk_one_line_names_the_extra(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "cathedra.mcp.server", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["mcp", "--dump", "dump.json"]) == 2
    expected = "cathedra: the SDK mcp (2 or newer) is missing; get it with: pip install 'cathedra[mcp]'\n"
    assert capsys.readouterr() == ("", expected)


@pytest.mark.parametrize("ending", ["input", "signal"])
def test_it_ends_with_its_input_and_by_an_interruption(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("mcp", reason="the SDK mcp is missing: pip install 'cathedra[mcp]'")
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    command = [sys.executable, "-m", "cathedra.cli.main", "mcp", "--dump", dump]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(INITIALIZE)
        server.stdin.flush()
        assert b'"name":"cathedra"' in server.stdout.readline()
        if ending == "input":
            server.stdin.close()
            assert server.wait(60) == 0
        else:
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == -signal.SIGINT
        assert server.stderr is not None
        assert server.stderr.read() == b""
