"""Findings as SARIF 2.1.0, the form in which code hosts and editors show results of analyses."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from cathedra import __version__
from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.linting.model import LintFinding, LintReport
from cathedra.insight.linting.rules import RULES

__all__ = ["sarif"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(report: LintReport) -> JSONObject:
    """A log with one run."""
    names = list(RULES)
    rules: list[Any] = [
        {
            "id": rule.name,
            "shortDescription": {"text": rule.summary},
            "defaultConfiguration": {"level": rule.level},
        }
        for rule in RULES.values()
    ]
    driver: JSONObject = {
        "name": "kubectl-dra-lint",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": rules,
    }
    results = [_result(one, names.index(one.rule)) for one in report.findings]
    run: JSONObject = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*results]}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(one: LintFinding, index: int) -> JSONObject:
    text = f"{one.message}\nhint: {one.hint}" if one.hint else one.message
    region: JSONObject = {
        "startLine": one.line,
        "startColumn": one.column,
        "endColumn": one.column + one.length,
        "snippet": {"text": one.source},
    }
    place: JSONObject = {"artifactLocation": {"uri": _uri(one.file)}, "region": region}
    location: JSONObject = {"physicalLocation": place}
    if one.object:
        location["logicalLocations"] = [{"fullyQualifiedName": f"{one.object}:{one.path}", "kind": "object"}]
    return {
        "ruleId": one.rule,
        "ruleIndex": index,
        "level": one.level,
        "message": {"text": text},
        "locations": [location],
    }


def _uri(file: str) -> str:
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
