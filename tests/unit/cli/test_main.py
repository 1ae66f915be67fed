"""Wrong calls of the command: one readable line, exit code 2, no effect."""

from __future__ import annotations

import importlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.api.scheme import GroupResource
from cathedra.api.status import not_found
from cathedra.cli.errors import PRINTED, error_line
from cathedra.cli.main import main
from cathedra.client.kubeconfig import KubeconfigError


@pytest.fixture(autouse=True)
def _own_interrupts() -> Iterator[None]:
    """The loop of a part that fails early leaves its handler behind, and other tests interrupt themselves."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["up", "--nodes=-1"], "--nodes must not be negative, got -1"),
        (["up", "--store=postgres"], "--store must be sqlite, memory or etcd://HOST:PORT, got 'postgres'"),
        (
            ["up", "--kubernetes-version=1.20"],
            "--kubernetes-version must be one of 1.26, 1.27, ",
        ),
        (["up", "--feature-gates=DRAPrioritizedList"], "--feature-gates 'DRAPrioritizedList' is not of the form"),
        (["up", "--feature-gates=DRAPrioritizedList=maybe"], "the value must be true or false"),
        (
            ["up", "--runtime-config=resource.k8s.io/v1beta1"],
            "--runtime-config 'resource.k8s.io/v1beta1' is not of the form",
        ),
        (["apiserver", "--max-requests-inflight=0"], "--max-requests-inflight must be at least 1, got 0"),
        (["up", "--gpu-memory=lots"], "--gpu-memory 'lots' is no quantity"),
        (["up", "--gpu-attribute=type"], "--gpu-attribute 'type' is not of the form NAME=VALUE"),
        (
            ["apiserver", "--kubelet-client-key=k"],
            "--kubelet-client-certificate and --kubelet-client-key need each other",
        ),
        (["apiserver", "--kubelet-certificate-authority=/no/such"], "/no/such is no file"),
        (["enrol", "--node-name=n"], "has no certificates yet; start cathedra apiserver or cathedra up on it first"),
        (["up", "--profile=h101-8"], "there is no profile 'h101-8'; there are a100-8, "),
        (["profiles", "./nowhere"], "nowhere: No such file or directory"),
        (["profiles", "import", "/no/such", "--node=n"], "/no/such: there is no such file or directory"),
        (["scheduler", "--kubeconfig=nowhere"], "stat nowhere: no such file or directory"),
        (["controller-manager", "--kubeconfig=nowhere"], "stat nowhere: no such file or directory"),
        (["node", "--node-name=n", "--kubeconfig=nowhere"], "stat nowhere: no such file or directory"),
        (["driver", "--node-name=n", "--kubeconfig=nowhere"], "stat nowhere: no such file or directory"),
    ],
)
def test_a_wrong_call_gets_one_line_and_exit_code_2(
    words: list[str], wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CATHEDRA_DATA_DIR", str(tmp_path / "data"))
    # A cluster of the user who runs the tests must not be found, and no file may be written into the work tree.
    for name in ("HOME", "XDG_STATE_HOME", "KUBECONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "nobody"))
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("cathedra: ")
    assert wanted in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_unknown_gates_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CATHEDRA_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main(["up", "--no-merge", "--feature-gates=DRANothing=true"]) == 2
    assert capsys.readouterr().err == "cathedra: unrecognized feature gate: DRANothing\n"


def test_what_the_surroundings_did_is_told_and_our_own_faults_are_not() -> None:
    assert error_line(ExceptionGroup("parts", [KubeconfigError("no configuration")])) == "no configuration"
    assert error_line(not_found(GroupResource("", "pods"), "a")) == 'pods "a" not found'
    assert error_line(KeyError("x")) is None
    assert error_line(ExceptionGroup("parts", [OSError("a"), KeyError("b")])) is None


@pytest.mark.parametrize("one", PRINTED)
def test_an_error_that_is_told_has_its_name_in_its_module(one: str) -> None:
    """The list has names, of which no type checker knows whether they exist."""
    module, _, name = one.partition(":")
    error = getattr(importlib.import_module(module), name)
    assert error_line(error.__new__(error)) is not None


def test_a_wrong_call_loads_no_part() -> None:
    look = (
        "import sys; from cathedra.cli.main import main; code = main(['delete', 'Bad_Name']);"
        " sys.exit(code if not {'cathedra.scheduler', 'cathedra.controllers', 'cathedra.apiserver', 'cathedra.node'}"
        " & sys.modules.keys() else 99)"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "got 'Bad_Name'" in done.stderr


def test_the_parts_need_what_they_cannot_guess(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["node"])
    assert ended.value.code == 2
    assert "--node-name" in capsys.readouterr().err


def test_the_version_names_the_engine_of_regular_expressions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert re.fullmatch(r"cathedra \S+ \(regular expressions: (google-re2|pyre2|python)\)\n", capsys.readouterr().out)
