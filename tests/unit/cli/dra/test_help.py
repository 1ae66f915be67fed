"""Help of every command: examples, within the width of the terminal, without colours."""

from __future__ import annotations

import pytest

from cathedra.cli.dra.main import COMMANDS, main
from cathedra.cli.main import main as cathedra


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("command", [one.name for one in COMMANDS])
def test_help_has_examples_and_keeps_to_the_width(
    command: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    printed = capsys.readouterr().out
    assert stop.value.code == 0
    assert f"kubectl dra {command} " in printed.partition("examples:")[2]
    assert max(map(len, printed.splitlines())) <= columns
    assert "\x1b" not in printed


def test_every_command_is_in_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert [one.name for one in COMMANDS if f"\n    {one.name} " not in printed] == []


def test_without_arguments_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "explain why" in capsys.readouterr().out
    assert cathedra(["dra"]) == 0
    assert "list devices" in capsys.readouterr().out
    assert cathedra([]) == 0
    assert "commands:" in capsys.readouterr().out
