"""What rules are given: an object with its places, read into the newest version, and where findings go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.insight.linting.model import LintFinding
from cathedra.insight.linting.rules import RULES
from cathedra.insight.manifests.objects import Manifest
from cathedra.insight.manifests.places import TextPlaces, find_node
from cathedra.kinds.definition import AnyDefinition

__all__ = ["Findings", "Given", "Spot"]


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """An object of a manifest: as written, and decoded into the newest version of its kind."""

    manifest: Manifest
    definition: AnyDefinition
    object: KubeObject

    @property
    def title(self) -> str:
        """«kind/name», with the namespace where it is said."""
        return title_of(self.manifest)

    @property
    def namespace(self) -> str:
        """Its namespace; ``default`` where none is said."""
        return (self.manifest.namespace or "default") if self.definition.namespaced else ""


class Spot(NamedTuple):
    """Part of a text in a field: code points from the beginning of the value."""

    start: int
    end: int


@dataclass(slots=True)
class Findings:
    """Collects findings and works out their places."""

    found: list[LintFinding] = field(default_factory=list)
    _seen: set[tuple[Any, ...]] = field(default_factory=set)

    def add(
        self, rule: str, manifest: Manifest, path: str, message: str, *, hint: str = "", spot: Spot | None = None
    ) -> None:
        """Enter a finding about a field, or about part of its text."""
        node, key, exact = find_node(manifest.node, path)
        file = manifest.file
        if spot is not None and exact and node.kind == "scalar":
            places = TextPlaces(file, node)
            line, column = places.place(spot.start)
            end_line, end = places.place(max(spot.end - 1, spot.start))
            length = end - column + 1 if end_line == line else len(file.line(line).rstrip()) - column + 1
        else:
            shown = node if exact and node.kind == "scalar" and not node.style.startswith(("|", ">")) else key or node
            line, column = file.place(shown.start)
            end_line, end = file.place(shown.end)
            length = end - column if end_line == line and shown.kind == "scalar" else 1
        self._enter(rule, manifest, path, message, hint, (line, column, max(length, 1)))

    def at(self, rule: str, manifest: Manifest, line: int, message: str) -> None:
        """Enter a finding about a line."""
        text = manifest.file.line(line)
        column = len(text) - len(text.lstrip()) + 1
        self._enter(rule, manifest, "", message, "", (line, column, max(len(text.strip()), 1)))

    def _enter(
        self, rule: str, manifest: Manifest, path: str, message: str, hint: str, place: tuple[int, int, int]
    ) -> None:
        known = (rule, manifest.file.name, place, message)
        if known in self._seen:
            return
        self._seen.add(known)
        line, column, length = place
        file, level = manifest.file, RULES[rule].level
        where = (file.name, line, column, length, title_of(manifest), str(path))
        self.found.append(LintFinding(rule, level, message, *where, hint, file.line(line)))


def title_of(manifest: Manifest) -> str:
    """«kind/name», with the namespace where it is said."""
    return "/".join(part for part in (manifest.gvk.kind.lower(), manifest.namespace, manifest.name) if part)
