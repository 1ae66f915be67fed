"""Metrics of Kubernetes that Cathedra serves: type, stability, labels and help of each, by name.

The table is `metrics.tsv` beside this module, from ``test/instrumentation/documentation/documentation-list.yaml`` and
the sources that it is made from. A part looks up the names that it fills, so no name or help text is written twice.
"""

from __future__ import annotations

import csv
import platform
from collections.abc import Iterator, Mapping
from importlib.resources import files

from cathedra.exposition import Family, Metric
from cathedra.releases.gates import FeatureGates, state_of
from cathedra.releases.history import Stage
from cathedra.releases.table import git_version
from cathedra.remembering import remembered


def metric(name: str) -> Metric:
    """Return the metric of that name.

    Raises:
        KeyError: it is not in the table.
    """
    return metrics()[name]


@remembered("releases.metrics.table", size=1)
def metrics() -> Mapping[str, Metric]:
    """Return all metrics of the table, by name."""
    lines = files("cathedra.releases").joinpath("metrics.tsv").read_text(encoding="utf-8").splitlines()
    return {
        row["name"]: Metric(
            # Kubernetes' registry writes the stability before each help text.
            row["name"],
            row["type"],
            f"[{row['stability']}] {row['help']}",
            tuple(row["labels"].split()),
        )
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    }


def release_families(gates: FeatureGates) -> Iterator[Family]:
    """Yield the version of this process, and its feature gates as Kubernetes' parts show them."""
    version = git_version(gates.release)
    major, minor = gates.release.split(".")
    build = Family(metric("kubernetes_build_info"))
    system = f"{platform.system()}/{platform.machine()}".lower()
    runtime = f"python{platform.python_version()}"
    build.add((major, minor, version, "", "", "", runtime, platform.python_implementation().lower(), system), 1)
    yield build
    features = Family(metric("kubernetes_feature_enabled"))
    for gate in sorted(gates):
        state = state_of(gate, gates.release)
        if state is not None:
            features.add((gate, "" if state.stage == Stage.GA else state.stage), gates[gate])
    yield features
