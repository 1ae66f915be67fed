"""Findings and seeds of fuzzing, on every layer that takes bytes from outside."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tools.fuzzing import CORPORA, all_layers

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


def test_a_layer_is_fuzzed_by_coverage() -> None:
    pytest.importorskip("atheris", reason="atheris is not installed: it guides mutations by coverage")
    command = [sys.executable, "-m", "tools.fuzzing", "--guided", "--layer=quantities", "--inputs=300", "--seed=1"]
    done = subprocess.run([*command, "--seconds=60"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 layers, 300 inputs, 0 findings" in done.stdout
