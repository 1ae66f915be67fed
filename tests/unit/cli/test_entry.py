"""The console scripts, interrupted while they are loaded."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from cathedra.cli import entry


@pytest.mark.parametrize(
    ("script", "module"), [(entry.cathedra, "cathedra.cli.main"), (entry.kubectl_dra, "cathedra.cli.dra.main")]
)
def test_an_interrupt_while_a_command_is_loaded_ends_it_as_one_at_work(
    script: Any, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loading = builtins.__import__

    def interrupted(name: str, *rest: Any) -> Any:
        if name == module:
            raise KeyboardInterrupt
        return loading(name, *rest)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    assert script() == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("script", "name"), [(entry.cathedra, "cathedra"), (entry.kubectl_dra, "kubectl-dra")])
def test_a_script_runs_its_command(
    script: Any, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [name, "--version"])
    with pytest.raises(SystemExit) as ended:
        script()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("cathedra ")
