"""Fuzzing of every layer that takes bytes from a peer, a user or a disk.

A harness (`tools/fuzz_http.py`, `fuzz_values.py`, …) offers layers: a name, seeds, what is done with one input. This
module mutates the seeds, runs the layers, each in a process of its own, and holds every input to the same promises: no
exception but the layer's own errors, no more than `CPU_LIMIT` seconds of processor time, no death of the process.

    python -m tools.fuzzing --seconds 120                # every layer, its share of the time each
    python -m tools.fuzzing --layer http-json --inputs 20000
    python -m tools.fuzzing --layer http-json --replay FILE

    python -m tools.fuzzing --layer http-json --play     # kept inputs and seeds as they are

A finding is written to `.fuzz/LAYER-…` and makes the exit status 1; inputs that once were findings live in
`tools/corpora/LAYER/` and are played first, and by the test suite.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import importlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from tools.mutation import mutated

__all__ = [
    "CORPORA",
    "CPU_LIMIT",
    "Layer",
    "Outcome",
    "Overrun",
    "Recorder",
    "all_layers",
    "corpus",
    "examine",
    "fuzz",
    "outcome_of",
]

CPU_LIMIT: Final = 2.0
"""Seconds of processor time that one input may cost."""
HARNESSES: Final = (
    "fuzz_http",
    "fuzz_sessions",
    "fuzz_answers",
    "fuzz_values",
    "fuzz_files",
    "fuzz_wire",
    "fuzz_cel",
    "fuzz_allocation",
)
CORPORA: Final = Path(__file__).parent / "corpora"
FINDINGS: Final = Path(".fuzz")
AT_ONCE: Final = 2
PLAYED: Final = 60
"""Seeds of a layer that are played without mutations, at most."""
STALLED: Final = 60.0
"""Seconds without any progress after which a layer's process is ended and its input is a finding."""

INSTRUMENTING: Final = 60.0
"""Seconds in which the modules of a layer are instrumented for guided fuzzing, on a busy machine."""


class Overrun(BaseException):
    """An input was still being worked on long after its limit; no layer may catch it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Something that takes bytes from outside.

    ``take`` works on one input and returns; what it raises, but for ``refusals``, is a finding. ``seeds`` are inputs
    that mutations start from; ``focus`` cuts one into what stays before, what is mutated, and what stays after.
    """

    name: str
    take: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    refusals: tuple[type[BaseException], ...] = ()
    focus: Callable[[bytes], tuple[bytes, bytes, bytes]] = lambda data: (b"", data, b"")


@dataclass(slots=True)
class Outcome:
    """Results of a run of one layer."""

    layer: str
    inputs: int = 0
    slowest: float = 0.0
    findings: list[str] = field(default_factory=list)

    def line(self) -> str:
        """One line for people."""
        return (
            f"{self.layer:24} {self.inputs:9,} inputs   slowest {self.slowest:6.3f} s   {len(self.findings)} findings"
        )


def all_layers() -> dict[str, str]:
    """Layer → the harness that has it, in the harnesses' order."""
    layers: dict[str, str] = {}
    for harness in HARNESSES:
        for name in importlib.import_module(f"tools.{harness}").NAMES:
            layers[name] = harness
    return layers


def layer_of(name: str) -> Layer:
    """The layer of that name, made ready."""
    layer: Layer = importlib.import_module(f"tools.{all_layers()[name]}").layer(name)
    return layer


def corpus(name: str) -> list[Path]:
    """Kept inputs of a layer: former findings."""
    return sorted(path for path in (CORPORA / name).glob("*") if path.is_file())


def examine(layer: Layer, data: bytes) -> tuple[float, str]:
    """Give one input to a layer: its processor time in seconds, and what is wrong with the outcome (or "")."""
    started = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, 4 * CPU_LIMIT)
    try:
        layer.take(data)
        problem = ""
    except layer.refusals:
        problem = ""
    except Overrun:
        problem = "".join(traceback.format_exc()[-3000:])
    except Exception:
        problem = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    spent = time.process_time() - started
    if not problem and spent > CPU_LIMIT:
        problem = f"took {spent:.1f} s of processor time; at most {CPU_LIMIT:.0f} s are allowed"
    return spent, problem


class Recorder:
    """Gives inputs to a layer and keeps what is wrong."""

    def __init__(self, layer: Layer) -> None:
        signal.signal(signal.SIGVTALRM, _overrun)
        FINDINGS.mkdir(exist_ok=True)
        self.outcome = Outcome(layer.name)
        self._layer = layer
        self._causes: set[str] = set()
        self._current = FINDINGS / f"{layer.name}-current"
        self._note = self._current.open("wb", buffering=0)

    def seeds(self) -> list[bytes]:
        """Return what mutations start from."""
        return [*self._layer.seeds(), *(path.read_bytes() for path in corpus(self._layer.name))]

    def give(self, data: bytes) -> None:
        """Let the layer work on one input. It is on disk meanwhile, in case that the process dies."""
        outcome = self.outcome
        self._note.seek(0)
        self._note.truncate()
        self._note.write(data)
        spent, problem = examine(self._layer, data)
        outcome.inputs += 1
        outcome.slowest = max(outcome.slowest, spent)
        if problem and (cause := _cause(problem)) not in self._causes:
            self._causes.add(cause)
            outcome.findings.append(f"{_keep(self._layer.name, data, problem)}  {cause}")

    def close(self) -> None:
        """Remove the file of the present input."""
        self._note.close()
        self._current.unlink(missing_ok=True)


def fuzz(layer: Layer, *, seconds: float, inputs: int, seed: int) -> Outcome:
    """Mutations of the layer's seeds until the time or the number of inputs is used up."""
    recorder = Recorder(layer)
    end = time.monotonic() + seconds
    for data in _inputs(layer, recorder.seeds(), random.Random(seed)):
        if recorder.outcome.inputs >= inputs or time.monotonic() > end:
            break
        recorder.give(data)
    recorder.close()
    return recorder.outcome


def _overrun(_signal: int, _frame: FrameType | None) -> None:
    raise Overrun


def _inputs(layer: Layer, seeds: Sequence[bytes], drawn: random.Random) -> Iterator[bytes]:
    """The kept inputs as they are, then mutations without end."""
    yield from (path.read_bytes() for path in corpus(layer.name))
    parts = [layer.focus(data)[1] for data in seeds]
    while True:
        before, part, after = layer.focus(drawn.choice(seeds))
        yield before + mutated(part, parts, drawn) + after


def _cause(problem: str) -> str:
    """Return the key by which findings are equal: the innermost active line of the project, and the class of the
    error."""
    places = re.findall(r'src/cathedra/(\S+)", line \d+, in (\S+)', problem)
    lines = [line for line in problem.splitlines() if line.strip()] or [""]
    error = next((line for line in reversed(lines) if re.match(r"[\w.]+(: |$)", line)), lines[-1])
    kind, _, text = error.partition(":")
    place = "/".join(places[-1]) if places else re.sub(r"[^A-Za-z ]+", " ", text)[:90]
    return f"{kind.rpartition('.')[2]} {place}"


def _keep(name: str, data: bytes, problem: str) -> str:
    path = FINDINGS / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    path.with_suffix(".txt").write_text(problem)
    return str(path)


# One layer is one process: its death is a finding, not the end of the run.


def _child(options: argparse.Namespace) -> int:
    faulthandler.enable()
    if options.guided:
        from tools.guided import fuzz_guided  # it imports this module

        fuzz_guided(options.layer, layer_of, seconds=options.seconds, inputs=options.inputs, seed=options.seed)
    layer = layer_of(options.layer)
    outcome = fuzz(layer, seconds=options.seconds, inputs=options.inputs, seed=options.seed)
    print(json.dumps({"inputs": outcome.inputs, "slowest": outcome.slowest, "findings": outcome.findings}))
    return 0


def _guided_layers() -> set[str]:
    from tools.guided import GUIDED  # it imports this module

    return set(GUIDED)


def _run_layer(name: str, options: argparse.Namespace, seconds: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tools.fuzzing", "--child", "--layer", name, "--seed", str(options.seed)]
    command += ["--seconds", str(seconds), "--inputs", str(options.inputs)]
    command += ["--guided"] if options.guided else []
    # What an earlier run left is no input of this one.
    (FINDINGS / f"{name}-current").unlink(missing_ok=True)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def outcome_of(name: str, process: subprocess.Popen[bytes], seconds: float) -> Outcome:
    """Return what a layer's process says at its end. Its death is a finding, as is a stall of `STALLED` seconds."""
    outcome = Outcome(name)
    try:
        output, errors = process.communicate(timeout=seconds + STALLED)
        reason = errors.decode(errors="replace")[-2000:]
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        reason = "made no progress"
    if process.returncode == 0:
        said = json.loads(output.splitlines()[-1])
        return Outcome(name, said["inputs"], said["slowest"], said["findings"])
    current = FINDINGS / f"{name}-current"
    data = current.read_bytes() if current.exists() else b""
    problem = f"the process ended with {process.returncode}: {reason}"
    outcome.findings.append(f"{_keep(name, data, problem)}  {problem}")
    return outcome


def _run_all(names: Sequence[str], options: argparse.Namespace) -> int:
    share = options.seconds * AT_ONCE / len(names) if len(names) > 1 else options.seconds
    outcomes: list[Outcome] = []
    for first in range(0, len(names), AT_ONCE):
        batch = names[first : first + AT_ONCE]
        processes = [(name, _run_layer(name, options, share)) for name in batch]
        for name, process in processes:
            outcome = outcome_of(name, process, share + (INSTRUMENTING if options.guided else 0.0))
            outcomes.append(outcome)
            print(outcome.line(), flush=True)
            for finding in outcome.findings:
                print(f"    {finding}", flush=True)
    findings = sum(len(outcome.findings) for outcome in outcomes)
    print(f"{len(outcomes)} layers, {sum(outcome.inputs for outcome in outcomes):,} inputs, {findings} findings")
    return 1 if findings else 0


def _play(names: Sequence[str]) -> int:
    """Give every layer its kept inputs and some of its seeds, unchanged."""
    signal.signal(signal.SIGVTALRM, _overrun)
    findings = 0
    for name in names:
        layer = layer_of(name)
        seeds = layer.seeds()
        played = [path.read_bytes() for path in corpus(name)] + random.Random(1).sample(seeds, min(PLAYED, len(seeds)))
        problems = [problem for data in played if (problem := examine(layer, data)[1])]
        findings += len(problems)
        print("\n".join([f"{name}: {len(played)} inputs, {len(problems)} findings", *problems]), flush=True)
    return 1 if findings else 0


def _replay(name: str, path: Path) -> int:
    signal.signal(signal.SIGVTALRM, _overrun)
    spent, problem = examine(layer_of(name), path.read_bytes())
    print(problem or f"as promised, in {spent:.3f} s")
    return 1 if problem else 0


def main() -> int:
    """Fuzz what the options name."""
    parser = argparse.ArgumentParser(description="Fuzz the layers that take bytes from outside.")
    parser.add_argument("--layer", action="append", default=[], help="only this layer (repeatable)")
    parser.add_argument("--seconds", type=float, default=120.0, help="wall-clock seconds for all layers together")
    parser.add_argument("--inputs", type=int, default=sys.maxsize, help="at most that many inputs per layer")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"), help="of the mutations")
    parser.add_argument("--replay", type=Path, help="give this file to the layer and print what happens")
    parser.add_argument(
        "--play", action="store_true", help="give kept inputs and seeds to the layers, without mutations"
    )
    parser.add_argument("--guided", action="store_true", help="let atheris guide mutations by coverage (name layers)")
    parser.add_argument("--list", action="store_true", help="the layers")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        print("\n".join(all_layers()))
        return 0
    if options.play:
        return _play(options.layer or list(all_layers()))
    if options.replay:
        return _replay(options.layer[0], options.replay)
    if options.child:
        options.layer = options.layer[0]
        return _child(options)
    if options.guided and (unguided := set(options.layer or all_layers()) - _guided_layers()):
        parser.error(f"--guided: {', '.join(sorted(unguided))}: choose from {', '.join(sorted(_guided_layers()))}")
    return _run_all(options.layer or list(all_layers()), options)


if __name__ == "__main__":
    sys.exit(main())
