"""Tools over a cluster or a dump of one: why a pod waits, what is free, what would happen.

They write nothing; `cathedra.insight.moving.applying` does, where a plan is to be carried out.

    state = read_dump(Path("dump.yaml"))                a `ClusterState`, also from `read_live`
    explain(state, "pod/train-0", namespace="team")     an `Explanation`: causes, devices left, changes that help
    devices(state, node="node-3")                       a `DeviceList`: what holds each, what is left, totals
    simulate(state, PlannedChanges(apply=Path("train.yaml")))  a `Simulation`: placements, what stays pending and why
    plan_moves(state, ["pod/train"])                    a `MovePlan`: the fewest moves that make room, proved
    match(state, 'device.driver == "gpu.example.com"')  a `SelectorMatch`: matches, errors, near misses
    convert(Path("claims.yaml"), "v1beta1")             a `Conversion`: the manifests in another version
    lint(Path("k8s"), against=state)                    a `LintReport`: what is wrong with manifests, and where

Every answer has ``to_dict()`` with ``apiVersion: cathedra.dev/v1``; the schemas are in docs/insight.md. What is
imported with a name is loaded when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cathedra.insight.conversion.convert import Conversion, convert, convert_device_plugin
    from cathedra.insight.explanation.explain import explain, explain_all
    from cathedra.insight.explanation.report import Explanation, ExplanationOverview
    from cathedra.insight.inventory.listing import devices
    from cathedra.insight.inventory.report import DeviceList
    from cathedra.insight.inventory.usage import UsageReport, usage
    from cathedra.insight.linting.lint import lint
    from cathedra.insight.linting.report import LintFinding, LintReport
    from cathedra.insight.matching import SelectorMatch, match
    from cathedra.insight.moving.defrag import Defragmentation, defrag
    from cathedra.insight.moving.plan import plan_moves
    from cathedra.insight.moving.report import MovePlan
    from cathedra.insight.reading.dumps import read_dump
    from cathedra.insight.reading.live import read_client, read_live
    from cathedra.insight.reading.manifests import ManifestOptions
    from cathedra.insight.reading.state import ClusterState, Note
    from cathedra.insight.simulation.plan import profiled_node
    from cathedra.insight.simulation.report import Simulation
    from cathedra.insight.simulation.run import PlannedChanges, simulate

__all__ = [
    "ClusterState",
    "Conversion",
    "Defragmentation",
    "DeviceList",
    "Explanation",
    "ExplanationOverview",
    "LintFinding",
    "LintReport",
    "ManifestOptions",
    "MovePlan",
    "Note",
    "PlannedChanges",
    "SelectorMatch",
    "Simulation",
    "UsageReport",
    "convert",
    "convert_device_plugin",
    "defrag",
    "devices",
    "explain",
    "explain_all",
    "lint",
    "match",
    "plan_moves",
    "profiled_node",
    "read_client",
    "read_dump",
    "read_live",
    "simulate",
    "usage",
]

_HOMES = {
    "ClusterState": "reading.state",
    "Conversion": "conversion.convert",
    "Defragmentation": "moving.defrag",
    "DeviceList": "inventory.report",
    "Explanation": "explanation.report",
    "ExplanationOverview": "explanation.report",
    "LintFinding": "linting.report",
    "LintReport": "linting.report",
    "ManifestOptions": "reading.manifests",
    "MovePlan": "moving.report",
    "Note": "reading.state",
    "SelectorMatch": "matching",
    "Simulation": "simulation.report",
    "convert": "conversion.convert",
    "convert_device_plugin": "conversion.convert",
    "defrag": "moving.defrag",
    "devices": "inventory.listing",
    "explain": "explanation.explain",
    "explain_all": "explanation.explain",
    "lint": "linting.lint",
    "match": "matching",
    "plan_moves": "moving.plan",
    "profiled_node": "simulation.plan",
    "read_client": "reading.live",
    "read_dump": "reading.dumps",
    "read_live": "reading.live",
    "PlannedChanges": "simulation.run",
    "simulate": "simulation.run",
    "UsageReport": "inventory.usage",
    "usage": "inventory.usage",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
