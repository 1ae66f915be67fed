"""Findings and seeds of fuzzing, on every layer that takes bytes from outside."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tools import fuzzing
from tools.fuzzing import CORPORA, all_layers
from tools.guided import GUIDED

ROOT = Path(__file__).parents[2]
LAYERS = all_layers()


def by_harness() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for layer, harness in LAYERS.items():
        found[harness].append(layer)
    return found


def test_every_kept_input_belongs_to_a_layer() -> None:
    assert len(LAYERS) >= 24
    assert {path.name for path in CORPORA.iterdir()} <= set(LAYERS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("harness", sorted(by_harness()))
def test_kept_inputs_and_seeds_are_answered_or_refused_in_time(harness: str) -> None:
    """In a process of its own: a harness has an event loop, signal handlers and log handlers."""
    chosen = [option for layer in by_harness()[harness] for option in ("--layer", layer)]
    played = subprocess.run(
        [sys.executable, "-m", "tools.fuzzing", "--play", *chosen],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 0, played.stdout[-4000:] + played.stderr[-4000:]
    assert played.stdout.count(" 0 findings") == len(by_harness()[harness])


def fuzzed(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.fuzzing", "--inputs=300", "--seed=1", "--seconds=60", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_guided_layer_is_a_layer_and_its_module_exists() -> None:
    assert set(GUIDED) <= set(LAYERS)
    for module in GUIDED.values():
        importlib.import_module(module)


def test_a_layer_is_fuzzed_by_coverage() -> None:
    pytest.importorskip("atheris", reason="atheris is not installed: it guides mutations by coverage")
    done = fuzzed("--guided", "--layer=quantities")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 layers, 300 inputs, 0 findings" in done.stdout


def test_a_layer_without_branches_in_python_is_not_guided() -> None:
    done = fuzzed("--guided", "--layer=http-json")
    assert done.returncode == 2
    assert "--guided: http-json: choose from cdi-json, cel-selectors" in done.stderr


def test_the_death_of_a_layer_is_a_finding_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzzing, "FINDINGS", tmp_path)
    dying = [sys.executable, "-c", "import os, sys; sys.stderr.write('out of luck'); sys.stderr.flush(); os.abort()"]
    with subprocess.Popen(dying, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        outcome = fuzzing.outcome_of("quantities", process, 60.0)
    (finding,) = outcome.findings
    assert finding.endswith("the process ended with -6: out of luck")
