"""Coverage-guided fuzzing of one layer with atheris, where that is installed: inputs that reach new branches are kept.

libFuzzer never returns, so this runs in the layer's own process and ends it with the outcome as its last line.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final, NoReturn

from tools.fuzzing import Layer, Recorder

__all__ = ["GUIDED", "fuzz_guided"]

GUIDED: Final[Mapping[str, str]] = {
    "quantities": "cathedra.api.quantity",
    "times": "cathedra.api.timestamp",
    "label-selectors": "cathedra.api.selectors",
    "field-selectors": "cathedra.api.selectors",
    "schedules": "cathedra.kinds.batch.cronjobs",
    "cel-selectors": "cathedra.cel.selector",
    "cdi-json": "cathedra.cdi.spec",
}
"""Layers whose code is Python, each with the module that reads its input: of parsers in C no branch is seen. An input
of the other layers costs a whole request."""


def fuzz_guided(name: str, make: Callable[[str], Layer], *, seconds: float, inputs: int, seed: int) -> NoReturn:
    """Fuzz the layer that ``make`` returns until the time or the number of inputs is used up, and end the process."""
    import atheris  # optional: it has wheels for some versions of Python alone

    # All modules of the program would take half a minute, and their branches say nothing about this input.
    with atheris.instrument_imports(include=["cathedra"], enable_loader_override=False):
        importlib.import_module(GUIDED[name])
    recorder = Recorder(make(name))
    end = time.monotonic() + seconds

    with tempfile.TemporaryDirectory(prefix="guided-") as directory:
        corpus = Path(directory)

        def take(data: bytes) -> None:
            recorder.give(data)
            if recorder.outcome.inputs >= inputs or time.monotonic() > end:
                _end(recorder, corpus)

        for number, data in enumerate(recorder.seeds()):
            (corpus / str(number)).write_bytes(data)
        arguments = [sys.argv[0], f"-seed={seed % 2**32}", "-verbosity=0", "-rss_limit_mb=0", "-timeout=0", str(corpus)]
        atheris.Setup(arguments, take)
        atheris.Fuzz()
    raise AssertionError("libFuzzer ends the process")


def _end(recorder: Recorder, corpus: Path) -> NoReturn:
    # The process ends without leaving the block that has the directory.
    shutil.rmtree(corpus, ignore_errors=True)
    recorder.close()
    print(json.dumps(asdict(recorder.outcome)), flush=True)
    os._exit(0)
