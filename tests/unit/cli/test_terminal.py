"""Output that loses its reader, and widths."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
import yaml

from cathedra.cli.cluster.tables import UNBOUNDED, make_console
from cathedra.cli.terminal import print_data, style, width


def test_progress_goes_on_when_the_reader_has_closed_the_pipe() -> None:
    """As with ``cathedra up --detach | head -1``."""
    script = (
        "from cathedra.cli.terminal import print_progress\n"
        "for number in range(3): print_progress(f'line {number}')\n"
        "print('rest'); import sys; sys.stderr.write('done')"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "done")


def test_tables_in_a_pipe_are_as_wide_as_columns_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert make_console().width == UNBOUNDED
    monkeypatch.setenv("COLUMNS", "72")
    assert make_console().width == 72


class Terminal(io.StringIO):
    """Standard output that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert style("held", "bad") == "\x1b[1;31mheld\x1b[0m"
    assert style("free", "good") == "\x1b[1;32mfree\x1b[0m"
    assert style("NODE", "title") == "\x1b[1mNODE\x1b[0m"
    assert style("text", "") == "text"


def test_a_user_may_refuse_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert style("held", "bad") == "held"


def test_a_pipe_gets_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert style("held", "bad") == "held"


def test_the_width_is_that_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    assert width() == 77


def test_programs_get_json_or_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"b": [1, "ä"], "a": {"x": None}}
    print_data(data, "json")
    assert json.loads(capsys.readouterr().out) == data
    print_data(data, "yaml")
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed) == data
    assert printed.startswith("b:")
