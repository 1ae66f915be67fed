"""``make bench-report``: how costs grow, as plots and a page of figures.

Each figure comes from a run in a process of its own. What grows with nodes, pods and claims is processor time, which
means something on a busy machine, too; what watchers get is events per second. Whole clusters have ten pods and five
claims on each node, and an agent for each (`benchmarks.sizes`). They take minutes each, so their figures are kept in a
file, and a size that is there is not measured again.

    python -m benchmarks.report [--to FOLDER] [--churn SECONDS] [--largest NODES]
    python -m benchmarks.report --clusters NODES ... [--to FOLDER]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.apiserver import Load, Server
from benchmarks.scheduler import Workload, alone
from benchmarks.sizes import Sizes, measured

__all__ = ["Series", "clusters", "draw_clusters", "series", "write"]

NODES: Final = (100, 500, 1000, 2000, 5000)
PODS: Final = (250, 500, 1000, 2000, 4000)
CLAIMS: Final = (0, 1000, 2500, 5000, 10_000, 20_000)
WATCHERS: Final = (1, 10, 50, 100)
BURST: Final = 500
WATCH_SECONDS: Final = 5.0
MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Series:
    """One plot: a figure for each size."""

    title: str
    sizes: str
    """Title of the horizontal axis."""
    unit: str
    points: Sequence[tuple[float, float]]

    @property
    def name(self) -> str:
        """Of its file."""
        return self.title.lower().replace(" ", "-")


def series(largest: int, churn: float) -> Iterator[Series]:
    """Return all plots but that of whole clusters. Pods come and go for ``churn`` seconds."""
    sizes = [count for count in NODES if count <= largest]
    yield Series("Cost by nodes", "nodes", "ms of a processor per pod", [(n, _cost(nodes=n)) for n in sizes])
    yield Series("Cost by pods", "pods", "ms of a processor per pod", [(n, _cost(pods=n)) for n in PODS])
    held = [count for count in CLAIMS if count <= largest * 5]
    found = [(count, alone(_workload(nodes=largest, claims=count))) for count in held]
    yield Series("Cost by claims", "claims", "ms of a processor per pod", [(n, one.processor) for n, one in found])
    yield Series("Memory by claims", "claims", "MiB", [(n, one.memory) for n, one in found])
    yield Series("Events by watchers", "watchers", "events/s", list(_watched()))
    steady = replace(_workload(pods=10), steady=True, seconds=churn)
    resident = alone(steady).resident
    yield Series("Memory over time", "minutes", "MiB", [(n / MINUTE, one) for n, one in enumerate(resident, 1)])


Curve = tuple[str, Callable[[Sizes], float]]
"""A label, and the figure of a size."""
PANELS: Final[Sequence[tuple[str, Sequence[Curve]]]] = (
    (
        "memory, MiB",
        (
            ("control plane", lambda one: one.memory),
            ("after lists and watches", lambda one: one.loaded),
            ("all agents", lambda one: one.agents),
        ),
    ),
    ("start until it serves, s", (("start", lambda one: one.serving),)),
    (
        "per node that joins, ms",
        (
            ("control plane", lambda one: one.joined / one.nodes * 1000),
            ("agent", lambda one: one.joined_agents / one.nodes * 1000),
        ),
    ),
    (
        "a page of 500 pods, ms",
        (("pods at rest", lambda one: one.page), ("pods that change", lambda one: one.changed_page)),
    ),
    ("an event for each watcher, µs", (("event", lambda one: one.event),)),
    (
        "longest stall, ms",
        (
            ("joining", lambda one: one.joined_stall),
            ("lists", lambda one: one.page_stall),
            ("events", lambda one: one.event_stall),
            ("loss of a node", lambda one: one.loss_stall),
        ),
    ),
)
"""Plots of whole clusters."""


def clusters(sizes: Sequence[int], figures: Path) -> Sequence[Sizes]:
    """Measure whole clusters whose figures are not in the file yet, add them to it, and return those of the sizes."""
    known = (
        {one.nodes: one for one in msgspec.json.decode(figures.read_bytes(), type=list[Sizes])}
        if figures.exists()
        else {}
    )
    for nodes in sizes:
        if nodes not in known:
            known[nodes] = measured(nodes)
            figures.write_bytes(msgspec.json.format(msgspec.json.encode([*known.values()])))
    return [known[nodes] for nodes in sorted(sizes)]


def draw_clusters(found: Sequence[Sizes], folder: Path) -> None:
    """Draw all plots of whole clusters into one picture, ``clusters.svg``, and print a table of their figures."""
    figure = Figure(figsize=(9.6, 5.4), layout="constrained")
    for axes, (title, curves) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        for label, value in curves:
            axes.plot(
                [one.nodes for one in found], [value(one) for one in found], marker="o", markersize=3, label=label
            )
        axes.set(title=title, ylim=(0, None), xlim=(0, None))
        axes.title.set_fontsize(10)
        axes.tick_params(labelsize=8)
        axes.grid(visible=True, alpha=0.3)
        if len(curves) > 1:
            axes.legend(fontsize=7)
    figure.supxlabel("nodes, with ten pods and five claims each", fontsize=9)
    # Letters as text and not as outlines: a quarter of the size.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "clusters"}):
        figure.savefig(folder / "clusters.svg", metadata={"Date": None})
    print("| nodes |", " | ".join(f"{one.nodes:,}" for one in found), "|")
    for title, curves in PANELS:
        for label, value in curves:
            print(f"| {title} ({label}) |", " | ".join(f"{value(one):,.4g}" for one in found), "|")


def write(found: Series, folder: Path) -> None:
    """Draw it, and add its figures to the page."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot([size for size, _ in found.points], [value for _, value in found.points], marker="o", markersize=3)
    axes.set(title=found.title, xlabel=found.sizes, ylabel=found.unit, ylim=(0, None))
    axes.grid(visible=True, alpha=0.3)
    figure.savefig(folder / f"{found.name}.svg", metadata={"Date": None})
    with (folder / "index.md").open("a") as page:
        page.write(f"## {found.title}\n\n![{found.title}]({found.name}.svg)\n\n")
        page.write(f"| {found.sizes} | {found.unit} |\n|---|---|\n")
        page.writelines(f"| {size:,.4g} | {value:,.4g} |\n" for size, value in _shown(found.points))
        page.write("\n")


def _shown(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """No more than some dozen of them."""
    return points[:: max(len(points) // 12, 1)]


def _workload(nodes: int = 500, pods: int = BURST, claims: int = 0) -> Workload:
    return Workload("report", nodes, pods, init_claims=claims)


def _cost(nodes: int = 500, pods: int = BURST) -> float:
    return alone(_workload(nodes, pods)).processor


def _watched() -> Iterator[tuple[float, float]]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        try:
            server.start()
            load = Load(server, WATCH_SECONDS)
            load.run("fill", what="namespace", count=1)
            for count in WATCHERS:
                yield count, load.run("watch", watchers=count)["rate"]
        finally:
            server.stop()


def main() -> int:
    """Make the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description="Plot how costs grow.")
    parser.add_argument("--to", type=Path, default=Path("bench-report"), metavar="FOLDER", help="where it is written")
    parser.add_argument("--churn", type=float, default=120.0, metavar="SECONDS", help="how long memory is watched")
    parser.add_argument("--largest", type=int, default=NODES[-1], metavar="NODES", help="the largest cluster")
    parser.add_argument("--clusters", type=int, nargs="+", metavar="NODES", help="only whole clusters of these sizes")
    arguments = parser.parse_args()
    arguments.to.mkdir(parents=True, exist_ok=True)
    if arguments.clusters:
        draw_clusters(clusters(arguments.clusters, arguments.to / "clusters.json"), arguments.to)
        return 0
    (arguments.to / "index.md").write_text("# How costs grow\n\n")
    for found in series(arguments.largest, arguments.churn):
        write(found, arguments.to)
        print(
            f"{found.title}: {', '.join(f'{size:g} {value:.3g}' for size, value in _shown(found.points))}", flush=True
        )
    print(f"written to {arguments.to}/index.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
