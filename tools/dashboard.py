"""Draw the advisor's dashboard from a Prometheus that has scraped it: ``python -m tools.dashboard --prometheus URL``.

Grafana is not needed to see whether the queries of the dashboard return what their panels mean.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

DASHBOARD: Final = Path(__file__).parents[1] / "deploy" / "monitoring" / "advisor-dashboard.json"
_POINTS: Final = 200
_SERIES: Final = 10
"""Series of a panel that are drawn."""
_VARIABLES: Final = {"$device_class": ".*", "$driver": ".*", "$__rate_interval": "2m"}


class Prometheus:
    """The HTTP API of a Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def query(self, path: str, **parameters: object) -> Sequence[dict[str, Any]]:
        """Return the series of a query."""
        words = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{words}", timeout=30) as answer:
            found: Sequence[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


def expression(target: dict[str, Any]) -> str:
    """Return the query of a target without Grafana's variables."""
    text: str = target["expr"]
    for name, value in _VARIABLES.items():
        text = text.replace(name, value)
    return text


def _label(legend: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        legend = legend.replace(f"{{{{{name}}}}}", value or "–")
    return legend


def _draw_over_time(axes: Axes, panel: dict[str, Any], source: Prometheus, seconds: float) -> int:
    end = time.time()
    names, lines = [], []
    for target in panel["targets"]:
        window = {"start": end - seconds, "end": end, "step": seconds / _POINTS}
        for one in source.query("query_range", query=expression(target), **window)[:_SERIES]:
            values = {float(at): float(value) for at, value in one["values"]}
            names.append(_label(target["legendFormat"], one["metric"]))
            lines.append(values)
    moments = sorted({at for line in lines for at in line})
    minutes = [(at - end) / 60 for at in moments]
    tables = [[line.get(at, float("nan")) for at in moments] for line in lines]
    if "stacking" in panel["fieldConfig"]["defaults"].get("custom", {}) and tables:
        axes.stackplot(minutes, [[0 if one != one else one for one in table] for table in tables], labels=names)
    else:
        for name, table in zip(names, tables, strict=True):
            axes.plot(minutes, table, label=name)
    if names:
        axes.legend(fontsize=6, loc="upper left")
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=6)
    return len(names)


def _draw_now(axes: Axes, panel: dict[str, Any], source: Prometheus) -> int:
    (target,) = panel["targets"]
    found = source.query("query", query=expression(target))
    axes.set_axis_off()
    if panel["type"] == "stat":
        value = float(found[0]["value"][1]) if found else float("nan")
        shown = f"{value:.0%}" if panel["fieldConfig"]["defaults"]["unit"] == "percentunit" else f"{value:g}"
        axes.text(0.5, 0.4, shown, ha="center", va="center", fontsize=20)
        return len(found)
    rows = [
        f"{_label(target['legendFormat'], one['metric']):<44} {float(one['value'][1]):>10.3g}"
        for one in found[:_SERIES]
    ]
    axes.text(0, 0.95, "\n".join(rows), va="top", fontsize=6, family="monospace")
    return len(found)


def draw(source: Prometheus, seconds: float, file: Path) -> dict[str, int]:
    """Draw all panels. Return the number of series of each."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    height = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in panels)
    figure = Figure(figsize=(12, height * 0.3))
    grid = figure.add_gridspec(height, 24, hspace=5, wspace=3, left=0.04, right=0.98, top=0.98, bottom=0.02)
    found = {}
    for panel in panels:
        place = panel["gridPos"]
        axes = figure.add_subplot(grid[place["y"] : place["y"] + place["h"] - 1, place["x"] : place["x"] + place["w"]])
        axes.set_title(panel["title"], fontsize=8, loc="left")
        over_time = panel["type"] == "timeseries"
        found[panel["title"]] = (
            _draw_over_time(axes, panel, source, seconds) if over_time else _draw_now(axes, panel, source)
        )
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=80)
    return found


def main() -> int:
    """Draw it; 1 if a panel has no series."""
    parser = argparse.ArgumentParser(prog="python -m tools.dashboard", description="Draw the advisor's dashboard.")
    parser.add_argument("--prometheus", required=True, metavar="URL", help="a Prometheus that scrapes an advisor")
    parser.add_argument("--minutes", type=float, default=15, metavar="N", help="time that is drawn (default 15)")
    parser.add_argument("--to", type=Path, default=Path("advisor-dashboard.png"), metavar="FILE", help="picture")
    arguments = parser.parse_args()
    found = draw(Prometheus(arguments.prometheus), arguments.minutes * 60, arguments.to)
    for title, series in found.items():
        print(f"{series:>4} series  {title}")
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
