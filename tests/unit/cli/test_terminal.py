"""Output that loses its reader, and widths."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cathedra.cli.cluster.tables import UNBOUNDED, make_console


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
