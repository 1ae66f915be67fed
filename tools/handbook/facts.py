"""Reference of metrics and of lint's rules, from the tables in the sources."""

from __future__ import annotations

from cathedra.advisor.program import METRICS
from cathedra.insight.linting.report import RULES
from cathedra.releases.metrics import metrics
from tools.handbook.markdown import code, escaped, table

__all__ = ["lint_page", "metrics_page"]


def metrics_page() -> str:
    """Return the page of metrics, with their stability and help."""
    lines = [
        "# Metrics and their meaning",
        "",
        "All metrics in alphabetical order, with stability and help text. [Metrics](../metrics.md) lists them by part,",
        "and where they differ from Kubernetes.",
        "",
        "## Kubernetes' metrics",
        "",
    ]
    known = [metrics()[name] for name in sorted(metrics())]
    # A help text begins with the stability, as Kubernetes' registry writes it.
    parts = ((one, *one.help.removeprefix("[").split("] ", 1)) for one in known)
    rows = ((code(one.name), one.kind, stability, _codes(one.labels), escaped(text)) for one, stability, text in parts)
    lines += table(("metric", "type", "stability", "labels", "help"), rows)
    lines += ["## The advisor's metrics", ""]
    own = ((code(one.name), one.kind, _codes(one.labels), escaped(one.help)) for one in METRICS)
    lines += table(("metric", "type", "labels", "help"), own)
    return "\n".join(lines) + "\n"


def lint_page() -> str:
    """Return the page of lint's rules, with links to their explanations."""
    lines = [
        "# Rules of lint",
        "",
        "Each rule of `kubectl dra lint`, in the order of the checks. The name leads to the explanation and the cure.",
        "",
    ]
    rows = ((f"[`{rule.name}`](../lint.md#{rule.name})", rule.level, escaped(rule.summary)) for rule in RULES.values())
    lines += table(("rule", "level", "finds"), rows)
    return "\n".join(lines) + "\n"


def _codes(labels: tuple[str, ...]) -> str:
    return ", ".join(map(code, labels)) or "–"
