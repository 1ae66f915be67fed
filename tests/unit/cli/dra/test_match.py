"""``kubectl dra match`` and ``kubectl dra repl``: exit codes, forms of output, terminals and pipes."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.output import DummyOutput

from cathedra.cli.dra.main import main
from cathedra.cli.dra.repl import _prompt
from cathedra.insight import read_dump
from cathedra.insight.matching import ReplSession
from tests.unit.cli.dra.dumps import gpu_cluster, write_dump

MODEL = 'device.attributes["gpu.example.com"].model'


@pytest.fixture
def dump(tmp_path: Path) -> str:
    return write_dump(tmp_path / "dump.json", gpu_cluster())


def test_a_match_is_exit_code_0_and_none_is_1(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", f'{MODEL} == "a100"', "--dump", dump]) == 0
    assert capsys.readouterr().out.startswith("matches 4 of 4 devices\n")
    assert main(["match", f'{MODEL} == "h100"', "--dump", dump]) == 1


def test_json_carries_a_version(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "true", "--dump", dump, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["apiVersion"], answer["kind"], len(answer["matched"])) == ("cathedra.dev/v1", "SelectorMatch", 4)


def test_a_wrong_expression_gets_one_line_and_exit_code_2(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "device.x", "--dump", dump]) == 2
    said = "kubectl dra: the expression does not compile: 1:7: undefined field 'x'\n"
    assert capsys.readouterr() == ("", said)


def test_a_pipe_is_answered_in_plain_lines(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{MODEL}\n:quit\nnever\n"))
    assert main(["repl", "--dump", dump]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("a100  on 4 devices\n")
    assert ("\x1b" in printed.out, "never" in printed.out, printed.err) == (False, False, "")


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PipeInput]:
    """Input on a terminal; the history is in a folder of the test's own."""
    monkeypatch.setenv("CATHEDRA_DATA_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("sys.stdin", Terminal())
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        yield typed


def on_a_terminal(dump: str, monkeypatch: pytest.MonkeyPatch) -> str:
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["repl", "--dump", dump]) == 0
    return screen.getvalue()


def test_a_terminal_is_greeted_and_ends_with_control_d(
    dump: str, keys: PipeInput, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys.send_text(f"{MODEL}\r\x04")
    printed = on_a_terminal(dump, monkeypatch)
    assert printed.startswith("4 devices in ")
    assert "a100  on 4 devices" in printed
    assert MODEL in (tmp_path / "state" / "repl-history").read_text()


def test_control_c_drops_the_line(dump: str, keys: PipeInput, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.send_text(f"nonsense\x03{MODEL}\r:quit\r")
    assert "a100  on 4 devices" in on_a_terminal(dump, monkeypatch)


def test_the_terminal_completes_what_the_devices_have(keys: PipeInput) -> None:
    completer = _prompt(ReplSession(read_dump(gpu_cluster()))).completer
    found = completer.get_completions(Document('true && device.attributes["gpu'), CompleteEvent())
    assert [(one.text, one.start_position) for one in found] == [('gpu.example.com"]', -3)]


def test_a_history_that_cannot_be_written_is_no_error(
    dump: str, keys: PipeInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATHEDRA_DATA_DIR", os.devnull)
    keys.send_text("1 + 1\r\x04")
    assert "2  on 4 devices" in on_a_terminal(dump, monkeypatch)
