"""Comments that allow what a rule finds: ``# cathedra: allow RULE`` on the line, above it, or at the field.

Inside of an expression CEL's own comments do the same, ``// cathedra: allow RULE``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from cathedra.insight.linting.model import LintFinding
from cathedra.insight.linting.rules import RULES
from cathedra.insight.linting.subjects import Findings
from cathedra.insight.manifests.files import ManifestFile
from cathedra.insight.manifests.objects import Manifest
from cathedra.insight.manifests.places import find_node

__all__ = ["Allowed", "check_comments"]

_COMMENT: Final = re.compile(r"(?:#|//).*?\bcathedra:\s*allow\s+([\w-]+(?:\s*,\s*[\w-]+)*)")
_ONLY_COMMENT: Final = re.compile(r"\s*(?:#|//)")


class Allowed:
    """The rules that the comments of a file allow, by line."""

    def __init__(self, file: ManifestFile) -> None:
        self._file = file
        self.lines: dict[int, frozenset[str]] = {}
        if "cathedra:" not in file.text:
            return
        for number, line in enumerate(file.lines, 1):
            found = _COMMENT.search(line)
            if found:
                self.lines[number] = frozenset(re.split(r"\s*,\s*", found[1]))

    def allows(self, finding: LintFinding, manifest: Manifest | None) -> bool:
        """Whether a comment allows it."""
        if not self.lines:
            return False
        places = {finding.line}
        if manifest is not None and finding.path:
            node, key, _ = find_node(manifest.node, finding.path)
            places.add(self._file.place((key or node).start)[0])
        return any(finding.rule in self._near(line) for line in places)

    def _near(self, line: int) -> frozenset[str]:
        """What is allowed on a line: by itself, and by the lines of comments right above."""
        found = self.lines.get(line, frozenset())
        above = line - 1
        while above > 0 and _ONLY_COMMENT.match(self._file.line(above)):
            found |= self.lines.get(above, frozenset())
            above -= 1
        return found


def check_comments(manifests: Iterable[Manifest], allowed: Allowed, findings: Findings) -> None:
    """Enter names of rules that do not exist."""
    first = next(iter(manifests), None)
    if first is None:
        return
    for line, name in _unknown(allowed):
        findings.at("unknown-rule", first, line, f"there is no rule {name}; docs/lint.md lists them")


def _unknown(allowed: Allowed) -> Iterator[tuple[int, str]]:
    for line, names in allowed.lines.items():
        for name in sorted(names - RULES.keys()):
            yield line, name
