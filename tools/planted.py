"""Measure the time until random seeds find each planted bug, and draw it (docs/reliability.md).

python -m tools.planted                      # a table in Markdown
python -m tools.planted --plot FILE.svg      # a plot too
python -m tools.planted --only 'lost write'  # one bug; may be repeated
python -m tools.planted --figures A.json B.json --plot FILE.svg  # instead: the hours of each fault in campaigns
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

from tests.simulation.planted import PLANTED

from cathedra.faultsim.plan import Options, draw
from cathedra.faultsim.runs import run_plan

TRIES: Final = 5
LIMIT: Final = 600.0
"""Seconds of processor time after which a bug counts as not found."""


def time_to_find(bug: str, start: int) -> tuple[float, int, str]:
    """Return CPU seconds, number of seeds and the invariant, from a random first seed on."""
    seconds, seeds = 0.0, 0
    with PLANTED[bug]():
        while seconds < LIMIT:
            outcome = run_plan(draw(start + seeds, Options(hours=2.0)))
            seconds, seeds = seconds + outcome.cpu, seeds + 1
            if outcome.failed:
                return seconds, seeds, outcome.invariant
    return seconds, seeds, "not found"


def hours_of_faults(files: Sequence[Path]) -> str:
    """Return a plot of the hours for which each kind of fault was active in campaigns."""
    campaigns = [json.loads(file.read_text()) for file in files]
    hours: Counter[str] = Counter()
    for campaign in campaigns:
        hours.update(campaign["faults"])
    seeds, total = (sum(campaign[name] for campaign in campaigns) for name in ("seeds", "hours"))
    title = f"Virtual hours of each kind of fault, in {seeds:,} seeds and {total:,.0f} hours"
    return bars(title, dict(hours.most_common()), "h")


def bars(title: str, values: Mapping[str, float], unit: str) -> str:
    """Return horizontal bars as SVG."""
    most = max(values.values(), default=1.0) or 1.0
    rows = [
        f'<text x="210" y="{y + 14}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="220" y="{y + 3}" width="{max(380 * value / most, 1):.1f}" height="14" fill="#4878a8"/>'
        f'<text x="{226 + 380 * value / most:.1f}" y="{y + 14}">{value:,.1f} {unit}</text>'
        for y, (name, value) in zip(range(30, 10_000, 22), values.items(), strict=False)
    ]
    height = 40 + 22 * len(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" '
        'font-family="sans-serif" font-size="12">'
        f'<rect width="720" height="{height}" fill="#fff"/>'
        f'<text x="10" y="18" font-weight="bold">{escape(title)}</text>'
        f"{''.join(rows)}</svg>\n"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and write the plots that are wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plot", type=Path)
    parser.add_argument(
        "--figures", type=Path, nargs="+", help="figures of cathedra simulate-faults; only the plot is written"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=sorted(PLANTED), help="measure this bug alone")
    options = parser.parse_args(arguments)
    if options.figures is not None:
        (options.plot or options.figures[0].with_suffix(".svg")).write_text(hours_of_faults(options.figures))
        return
    random = Random(options.seed)
    slowest: dict[str, float] = {}
    print(f"| bug | CPU seconds until found, {TRIES} tries | median | most | seeds | found by |")
    print("|---|---|---|---|---|---|")
    for bug in options.only or PLANTED:
        found = [time_to_find(bug, random.randrange(10**6)) for _ in range(TRIES)]
        times = [seconds for seconds, _, _ in found]
        slowest[bug] = max(times)
        seconds, seeds = (", ".join(f"{one[index]:.3g}" for one in found) for index in (0, 1))
        names = ", ".join(f"`{name}`" for name in sorted({name for _, _, name in found}))
        print(f"| {bug} | {seconds} | {median(times):.3g} | {max(times):.3g} | {seeds} | {names} |", flush=True)
    if options.plot is not None:
        options.plot.write_text(bars("Most CPU seconds until a planted bug is found", slowest, "s"))


if __name__ == "__main__":
    main()
