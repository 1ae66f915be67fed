"""Coverage-guided fuzzing of one layer with atheris, where that is installed: inputs that reach new branches are kept.

libFuzzer never returns, so this runs in the layer's own process and ends it with the outcome as its last line.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final, NoReturn

from tools.fuzzing import Layer, Outcome, Recorder

__all__ = ["GUIDED", "fuzz_guided"]

GUIDED: Final = ("quantities", "times", "label-selectors", "field-selectors", "schedules", "cel-selectors", "cdi-json")
"""Layers whose code is Python: of parsers in C no branch is seen. An input of the others costs a whole request."""


def fuzz_guided(make: Callable[[], Layer], *, seconds: float, inputs: int, seed: int) -> NoReturn:
    """Fuzz the layer that ``make`` returns until the time or the number of inputs is used up, and end the process."""
    import atheris  # optional: it has wheels for some versions of Python alone

    with atheris.instrument_imports(include=["cathedra"], enable_loader_override=False):
        layer = make()
    recorder = Recorder(layer)
    end = time.monotonic() + seconds

    with tempfile.TemporaryDirectory(prefix="guided-") as name:
        corpus = Path(name)

        def take(data: bytes) -> None:
            recorder.give(data)
            if recorder.outcome.inputs >= inputs or time.monotonic() > end:
                _end(recorder.outcome, corpus)

        for number, data in enumerate(recorder.seeds()):
            (corpus / str(number)).write_bytes(data)
        arguments = [sys.argv[0], f"-seed={seed % 2**32}", "-verbosity=0", "-rss_limit_mb=0", "-timeout=0", name]
        atheris.Setup(arguments, take)
        atheris.Fuzz()
    raise AssertionError("libFuzzer ends the process")


def _end(outcome: Outcome, corpus: Path) -> NoReturn:
    # The process ends without leaving the block that has the directory.
    shutil.rmtree(corpus, ignore_errors=True)
    print(json.dumps(asdict(outcome)), flush=True)
    os._exit(0)
