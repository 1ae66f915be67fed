"""Long answers of ``kubectl dra repl``."""

from __future__ import annotations

import pydoc

import pytest

from cathedra.cli.dra.repl import _show


def test_an_answer_that_is_longer_than_the_terminal_is_paged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paged: list[str] = []
    monkeypatch.setattr(pydoc, "pager", paged.append)
    monkeypatch.setenv("LINES", "10")
    _show([f"line {number}\x1b" for number in range(20)], paged=True)
    assert capsys.readouterr().out == ""
    assert "\x1b" not in paged[0]
    _show(["short"], paged=True)
    _show(["line"] * 20, paged=False)
    assert capsys.readouterr().out == "short\n" + "line\n" * 20
    assert len(paged) == 1
