"""Names of metrics of the components that Cathedra replaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

from tools.follow.report import Difference
from tools.follow.source import Source

__all__ = ["differences", "read_metrics"]

SUBJECT = "metrics"
FILE = "test/instrumentation/documentation/documentation-list.yaml"
COMPONENTS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet")
SOURCE = Path(__file__).parents[2] / "src" / "cathedra"
_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")


def read_metrics(text: str) -> dict[str, tuple[str, ...]]:
    """Return the metrics of a list: full name → components that expose it; empty if the list does not name them."""
    found = {}
    for one in yaml.safe_load(text):
        name = "_".join(filter(None, (one.get("namespace"), one.get("subsystem"), one["name"])))
        found[name] = tuple(sorted({place["component"] for place in one.get("componentEndpoints") or ()}))
    return found


def differences(source: Source, release: str) -> Iterator[Difference]:
    """Yield metrics of the components that Cathedra's sources do not name."""
    del release
    text = source.read(FILE)
    for name, components in sorted(read_metrics(text or "[]").items()):
        # A counter is named here without the suffix that its exposition adds.
        known = {name, name.removesuffix("_total")} & _our_names()
        if (not components or set(components) & set(COMPONENTS)) and not known:
            yield Difference(SUBJECT, name, f"has it ({', '.join(components) or 'some component'})", "lacks it", FILE)


@cache
def _our_names() -> frozenset[str]:
    found = set()
    for path in SOURCE.rglob("*.py"):
        if "_proto" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
                    found.add(node.value)
    return frozenset(found)
