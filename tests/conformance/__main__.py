"""``make conformance``: how many of Kubernetes' recorded answers Cathedra gives, per file and per area.

A folder of vectors has one folder per area (``api``, ``allocation``, ``cel``), each with ``*.jsonl`` files of cases.
Every area has a module ``<area>_area`` whose ``run(folder)`` yields one result per case that judges the newest
behaviour (lines that a newer release superseded yield none). An area without a module, or a file it does not answer,
counts as failed. The baseline file holds the passed counts that a change must not fall below.

    python -m tests.conformance --vectors DIR [--area AREA] [--show ID] [--check-baseline | --write-baseline]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

AREAS = ("api", "allocation", "cel")
BASELINE = Path(__file__).with_name("baseline.json")

Result = tuple[str, str, bool, str]
"""File name, case id, whether it passed, and the first difference where not."""


@dataclass
class Score:
    """Passed and total of one file."""

    total: int = 0
    passed: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)


def cases_in(path: Path) -> int:
    """Lines that hold a case."""
    with path.open("rb") as lines:
        return sum(1 for line in lines if line.strip())


def runner_of(area: str) -> Callable[[Path], Iterator[Result]] | None:
    """The area's ``run``, or None if it has not been built."""
    name = f"tests.conformance.{area}_area"
    if importlib.util.find_spec(name) is None:
        return None
    run: Callable[[Path], Iterator[Result]] = importlib.import_module(name).run
    return run


def score_area(area: str, folder: Path) -> dict[str, Score]:
    """Run one area; what its module does not answer stays failed."""
    scores = {path.name: Score(total=cases_in(path)) for path in sorted(folder.glob("*.jsonl"))}
    run = runner_of(area)
    if run is None:
        return scores
    answered: set[str] = set()
    for file, case, passed, difference in run(folder):
        score = scores[file]
        if file not in answered:
            answered.add(file)
            score.total = 0
        score.total += 1
        if passed:
            score.passed += 1
        else:
            score.failures.append((case, difference))
    return scores


def scored(areas: list[str], vectors: Path) -> Iterator[dict[str, Score]]:
    """The scores of each area in turn; every processor takes one area at a time."""
    with ProcessPoolExecutor() as pool:
        yield from pool.map(score_area, areas, [vectors / area for area in areas])


def show(scores: dict[str, Score], wanted: str) -> int:
    """Print the differences of failures whose id contains ``wanted``; how many there were."""
    shown = 0
    for file, score in scores.items():
        for case, difference in score.failures:
            if wanted in case or wanted == file:
                shown += 1
                if shown <= 20:
                    print(f"--- {file}: {case}\n{difference}\n")
    return shown


def below_baseline(counts: dict[str, int]) -> list[str]:
    """What has fallen below the committed baseline, in words."""
    if not BASELINE.exists():
        return []
    baseline: dict[str, int] = json.loads(BASELINE.read_text())
    return [
        f"{name}: {counts[name]} passed, the baseline is {floor}"
        for name, floor in baseline.items()
        if name in counts and counts[name] < floor
    ]


def main() -> int:
    """Run, print, and say by the exit code whether the baseline holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=Path, default=Path(os.environ.get("VECTORS", "../shared/vectors")))
    parser.add_argument("--area", choices=AREAS, action="append", help="only this area (may be repeated)")
    parser.add_argument("--show", metavar="ID", help="print the differences of failed cases whose id contains ID")
    parser.add_argument("--check-baseline", action="store_true", help="exit 1 if a file passes fewer cases than before")
    parser.add_argument("--write-baseline", action="store_true", help="raise the baseline to what passes now")
    arguments = parser.parse_args()
    if not arguments.vectors.is_dir():
        print(f"conformance: there is no folder {arguments.vectors}; give one with VECTORS=DIR", file=sys.stderr)
        return 2

    counts: dict[str, int] = {}
    passed = total = 0
    asked = [area for area in arguments.area or AREAS if (arguments.vectors / area).is_dir()]
    for area, scores in zip(asked, scored(asked, arguments.vectors), strict=True):
        for file, score in scores.items():
            counts[f"{area}/{file}"] = score.passed
            print(f"  {area + '/' + file:<44} {score.passed:>6}/{score.total}")
        area_passed, area_total = sum(s.passed for s in scores.values()), sum(s.total for s in scores.values())
        print(f"{area:<46} {area_passed:>6}/{area_total}", flush=True)
        passed, total = passed + area_passed, total + area_total
        if arguments.show is not None:
            show(scores, arguments.show)

    if arguments.write_baseline:
        old = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
        raised = old | {name: max(count, old.get(name, 0)) for name, count in counts.items()}
        BASELINE.write_text(json.dumps(dict(sorted(raised.items())), indent=2) + "\n")
    fallen = below_baseline(counts) if arguments.check_baseline else []
    for line in fallen:
        print(f"below the baseline: {line}")
    print(f"TOTAL {passed}/{total}")
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
