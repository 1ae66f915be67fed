"""``make conformance``: how many of Kubernetes' recorded answers Cathedra gives, per file and per area.

A folder of vectors (by default the ``vectors`` beside this file) has one folder per area (``api``, ``allocation``,
``cel``, ``scenarios``, ``declared``), each with files of cases; a missing folder is an error.
Every area has a module ``<area>_area`` whose ``run(folder)`` yields one result per case that judges the newest
behaviour (lines that a newer release superseded yield none). An area without a module, or a file it does not answer,
counts as failed. The baseline file holds the passed counts that a change must not fall below.

    python -m tests.conformance [--vectors DIR] [--area AREA] [--show ID] [--check-baseline | --write-baseline]
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from cathedra.client.kubeconfig import KubeconfigError, load
from tests.conformance.live import run_live
from tests.conformance.live_cluster import ClusterInUse, NotRemoved
from tests.conformance.vectorfiles import VECTORS, count, vector_files

AREAS = ("api", "allocation", "cel", "scenarios", "declared")
BASELINE = Path(__file__).with_name("baseline.json")

Result = tuple[str, str, bool, str]
"""File name, case id, whether it passed, and the first difference where not."""


@dataclass
class Score:
    """Passed and total of one file."""

    total: int = 0
    passed: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)


def runner_of(area: str) -> Callable[[Path], Iterator[Result]] | None:
    """The area's ``run``, or None if it has not been built."""
    name = f"tests.conformance.{area}_area"
    if importlib.util.find_spec(name) is None:
        return None
    run: Callable[[Path], Iterator[Result]] = importlib.import_module(name).run
    return run


def score_area(area: str, folder: Path) -> dict[str, Score]:
    """Run one area; what its module does not answer stays failed."""
    scores = {name: Score(total=count(path)) for name, path in vector_files(folder).items()}
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
    """Return the areas that have fallen below the committed baseline, as text."""
    if not BASELINE.exists():
        return []
    baseline: dict[str, int] = json.loads(BASELINE.read_text())
    return [
        f"{name}: {counts[name]} passed, the baseline is {floor}"
        for name, floor in baseline.items()
        if name in counts and counts[name] < floor
    ]


def main() -> int:
    """Run and print the areas. Return exit code 0 if the baseline holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=Path, default=VECTORS, help="other vectors")
    parser.add_argument("--area", choices=AREAS, action="append", help="only this area (may be repeated)")
    parser.add_argument("--show", metavar="ID", help="print the differences of failed cases whose id contains ID")
    parser.add_argument("--check-baseline", action="store_true", help="exit 1 if a file passes fewer cases than before")
    parser.add_argument("--write-baseline", action="store_true", help="raise the baseline to what passes now")
    live = parser.add_argument_group("scenarios on a cluster")
    live.add_argument("--live", action="store_true", help="play the scenarios on a cluster over the wire")
    live.add_argument("--kubeconfig", type=Path, help="its configuration (default: as kubectl finds it)")
    live.add_argument("--context", default="", help="which of the configuration's clusters")
    live.add_argument("--only", metavar="ID", default="", help="only scenarios whose id contains ID")
    arguments = parser.parse_args()
    if arguments.live:
        return main_live(parser, arguments)
    asked = arguments.area or list(AREAS)
    missing = [str(folder) for area in asked if not (folder := arguments.vectors / area).is_dir()]
    if missing:
        print(f"conformance: no such folder: {', '.join(missing)}", file=sys.stderr)
        return 2

    counts: dict[str, int] = {}
    passed = total = 0
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


def main_live(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Play scenarios on a cluster; 0 if all are equal, 1 if not, 2 if they cannot be played."""
    if arguments.area != ["scenarios"]:
        parser.error("--live plays scenarios: say --area scenarios")
    try:
        target = load(arguments.kubeconfig, context=arguments.context)
        score = asyncio.run(run_live(target, arguments.vectors / "scenarios", arguments.only))
    except (KubeconfigError, ClusterInUse, NotRemoved, aiohttp.ClientError) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    for case, found in score.failed.items():
        if arguments.show is not None and arguments.show in case:
            print(f"--- {case}\n{found}\n")
    for why in sorted(set(score.unsuited.values())):
        print(f"not played, {why}: {sum(one == why for one in score.unsuited.values())}")
    print(f"LIVE {len(score.passed)}/{len(score.passed) + len(score.failed)}")
    return 1 if score.failed or not score.passed else 0


if __name__ == "__main__":
    sys.exit(main())
