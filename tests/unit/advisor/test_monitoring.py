"""Alert rules and dashboard use metrics and labels that the advisor has, in expressions that Prometheus reads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cathedra.advisor.devices import STATES
from cathedra.advisor.program import METRICS

FOLDER = Path(__file__).parents[3] / "deploy" / "monitoring"
LABELS = {name: one.labels for one in METRICS for name in (one.name, f"{one.name}_bucket")}
WORDS = re.compile(r"(?:by|without|on) \(([^)]*)\)")


def rules() -> list[dict[str, str]]:
    (group,) = yaml.safe_load((FOLDER / "advisor-alerts.yaml").read_text())["groups"]
    found: list[dict[str, str]] = group["rules"]
    return found


def expressions() -> Iterator[str]:
    yield from (one["expr"] for one in rules())
    dashboard = json.loads((FOLDER / "advisor-dashboard.json").read_text())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel["targets"])


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_uses_metrics_labels_and_states_that_exist(expression: str) -> None:
    used = re.findall(r"(cathedra_\w+)(?:\{([^}]*)\})?", expression)
    assert used
    known: set[str] = {"le"}
    for name, matchers in used:
        known |= set(LABELS[name])
        for label, value in re.findall(r'(\w+)(?:=~|!=|=)"([^"]*)"', matchers):
            assert label in LABELS[name]
            if label == "state" and "$" not in value:
                assert set(value.split("|")) <= {*STATES, "held", "free"}
    for group in WORDS.findall(expression):
        assert {one.strip() for one in group.split(",")} <= known
    assert all(expression.count(one) == expression.count(other) for one, other in ("()", "{}", "[]"))


def test_annotations_use_labels_that_their_rule_keeps() -> None:
    for rule in rules():
        named = set(re.findall(r"\$labels\.(\w+)", str(rule.get("annotations"))))
        kept = {one.strip() for group in WORDS.findall(rule["expr"])[:1] for one in group.split(",")}
        assert named <= (kept or set(LABELS["cathedra_largest_request"])), rule["alert"]


def test_every_metric_of_figures_is_on_the_dashboard() -> None:
    text = (FOLDER / "advisor-dashboard.json").read_text()
    unseen = {"cathedra_allocated_claims", "cathedra_advisor_analyses_total", "cathedra_advisor_values_left_out"}
    assert {one.name for one in METRICS if one.name not in text} == unseen


@pytest.mark.skipif(shutil.which("promtool") is None, reason="apt-get install prometheus")
def test_prometheus_reads_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(FOLDER / "advisor-alerts.yaml")], check=True)
