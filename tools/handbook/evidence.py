"""The page «how exact, how fast, how safe»: figures from the files that runs write and that CI compares.

Exactness is the conformance baseline, which fails a change that lowers it. Speed is the tables of the page about
performance. Safety is what CI runs on every change.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools.handbook.markdown import code, table

__all__ = ["page"]

ROOT = Path(__file__).parents[2]
_AREAS = {
    "allocation": "inputs and results of the structured allocator",
    "api": "requests to the API server and its answers",
    "cel": "expressions: values, errors and costs",
    "declared": "errors of declarative validation",
    "scenarios": "actions of scheduler and controllers on a whole control plane",
}
_FUZZED = {
    "allocation": "claims, slices and ledgers, compared with a plain search",
    "answers": "answers of an API server to its clients",
    "cel": "expressions",
    "files": "dumps, manifests, profiles and checkpoints",
    "http": "bytes on the API server's port",
    "sessions": "frames between the parts",
    "values": "quantities, selectors, times and other values",
    "wire": "JSON, YAML, protobuf and patches",
}


def page() -> str:
    """Return the text of the page."""
    introduction = (
        "# How exact, how fast, how safe",
        "",
        "Figures from the files that runs of this repository write, collected when this page was built.",
        "",
    )
    return "\n".join((*introduction, *_exact(), *_fast(), *_safe())) + "\n"


def _exact() -> Iterator[str]:
    baseline: dict[str, int] = json.loads((ROOT / "tests/conformance/baseline.json").read_text())
    passing: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for name, count in baseline.items():
        area = name.partition("/")[0]
        passing[area] += count
        files[area] += 1
    yield from (
        "## How exact",
        "",
        f"{sum(passing.values()):,} answers that Kubernetes gave were recorded; Cathedra gives the same. A change",
        "that lowers the number of any file fails ([conformance](../conformance.md)).",
        "",
    )
    rows = ((area, _AREAS.get(area, ""), f"{files[area]}", f"{passing[area]:,}") for area in sorted(passing))
    yield from table(("area", "recorded", "files", "equal answers"), rows)
    deviations = (ROOT / "docs/deviations.md").read_text()
    rows_of = len(re.findall(r"^\|(?! ?-)", deviations, re.MULTILINE)) - len(
        re.findall(r"^\|-", deviations, re.MULTILINE)
    )
    yield from (f"{rows_of} deliberate differences are listed with their reasons ([deviations](../deviations.md)).", "")


def _fast() -> Iterator[str]:
    text = (ROOT / "docs/performance.md").read_text()
    yield from (
        "## How fast",
        "",
        "Measured beside Kubernetes on the same machine ([performance](../performance.md) has the method).",
        "",
    )
    for heading in ("As users run it", "In one process"):
        section = re.search(rf"^### {heading}$\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
        if section is None:
            raise ValueError(f"docs/performance.md has no section «{heading}» any more")
        yield from (f"### {heading}", "", section[1].strip(), "")


def _safe() -> Iterator[str]:
    identities, *routes = (ROOT / "tests/security/authorization_walk.txt").read_text().splitlines()
    yield from (
        "## How safe",
        "",
        f"- A test calls {len(routes):,} combinations of route and verb as {len(identities.split())} kinds of users.",
        "  It compares each answer with a list ([authorization](../authorization.md)).",
        f"- {len(_attacks())} families of hard inputs run against a fresh cluster; none may stall it for a second or",
        f"  leave 100 MiB behind ([security](../security.md)): {', '.join(_attacks())}.",
        "",
        "Inputs are mutated at random for every layer that takes bytes from outside:",
        "",
    )
    found = sorted(path.stem.removeprefix("fuzz_") for path in (ROOT / "tools").glob("fuzz_*.py"))
    yield from table(("fuzzer", "input"), ((code(f"tools/fuzz_{name}.py"), _FUZZED[name]) for name in found))
    yield from ("### What every change passes", "", "From `.ci/run`:", "", "```sh", *_steps(), "```", "")


def _attacks() -> list[str]:
    tools = {"__init__", "__main__", "client", "measuring", "probe", "target"}
    return sorted(path.stem for path in (ROOT / "tools/attack").glob("*.py") if path.stem not in tools)


def _steps() -> list[str]:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    return [line.strip() for line in lines if re.match(r"\s*(?:CATHEDRA_\w+=1 )?(?:make |\.venv/|sh tests/)", line)]
