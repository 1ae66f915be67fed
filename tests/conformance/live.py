"""``--live``: the scenarios on any cluster, in real time, one after another.

A scenario takes as long as its cluster needs to come to rest, about ten seconds. Those that ask for other gates than
the cluster seems to have, or for a kind that it does not serve, are not played.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cathedra.client.kubeconfig import Target
from tests.conformance.live_cluster import LiveCluster, Stage, column_of, connected, kinds_of, play_live
from tests.conformance.vectorfiles import cases, vector_files

__all__ = ["LiveScore", "run_live"]


@dataclass
class LiveScore:
    """Outcomes of the scenarios."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Id → first difference."""
    unsuited: dict[str, str] = field(default_factory=dict)
    """Id → why it was not played."""


async def run_live(target: Target, folder: Path, only: str = "") -> LiveScore:
    """Play the scenarios whose id contains ``only``, and print a line for each.

    Raises:
        ClusterInUse: the cluster has nodes or devices.
        NotRemoved: a scenario left something that does not go.
        aiohttp.ClientError: the server cannot be reached.
    """
    score = LiveScore()
    async with connected(target) as cluster:
        stage = await Stage.open(cluster)
        column = await column_of(cluster)
        for path in vector_files(folder).values():
            for scenario in cases(path):
                if only in scenario["id"]:
                    await _judge(score, scenario, stage, cluster, column)
    return score


async def _judge(score: LiveScore, scenario: dict[str, Any], stage: Stage, cluster: LiveCluster, column: str) -> None:
    name = scenario["id"]
    why = _unsuited(scenario, stage.served, column)
    if why:
        score.unsuited[name] = why
        return
    began = time.monotonic()
    difference = await play_live(stage, cluster, scenario)
    if difference:
        score.failed[name] = difference
    else:
        score.passed.append(name)
    verdict = "differs" if difference else "equal"
    print(f"  {verdict:<8}{name:<56}{time.monotonic() - began:6.1f} s", flush=True, file=sys.stdout)


def _unsuited(scenario: dict[str, Any], served: frozenset[str], column: str) -> str:
    asked = "default" if scenario.get("gates") == "default" else "all"
    if asked != column:
        return f"recorded with gates: {asked}"
    missing = sorted(kinds_of(scenario) - served)
    return f"not served: {', '.join(missing)}" if missing else ""
