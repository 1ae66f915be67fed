"""Input and output of checks: an object with the positions of its fields, decoded into the newest version, and its
findings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import (
    DeviceClass,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from cathedra.insight.linting.report import RULES, LintFinding
from cathedra.insight.manifests import POD_SPECS, Manifest, ManifestFile, TextPositions, find_node
from cathedra.kinds.definition import AnyDefinition


@dataclass(frozen=True, slots=True, eq=False)
class ManifestObject:
    """An object of a manifest: as written, and decoded into the newest version of its kind."""

    manifest: Manifest
    definition: AnyDefinition
    object: KubeObject
    pod_path: str = ""
    """The field with the spec of its pods; "" for the kind's own."""

    @property
    def pod_spec_path(self) -> str:
        """The field with the spec of its pods."""
        return self.pod_path or POD_SPECS[self.manifest.gvk.kind]

    @property
    def title(self) -> str:
        """Return «kind/name», with the namespace if it is set."""
        return title_of(self.manifest)

    @property
    def namespace(self) -> str:
        """Its namespace; ``default`` if none is set."""
        return (self.manifest.namespace or "default") if self.definition.namespaced else ""


class TextRange(NamedTuple):
    """Part of a text in a field: code points from the beginning of the value."""

    start: int
    end: int


@dataclass(slots=True)
class Findings:
    """Collects findings and works out their places."""

    found: list[LintFinding] = field(default_factory=list)
    _seen: set[tuple[Any, ...]] = field(default_factory=set)

    def add(
        self, rule: str, manifest: Manifest, path: str, message: str, *, hint: str = "", spot: TextRange | None = None
    ) -> None:
        """Enter a finding about a field, or about part of its text."""
        node, key, exact = find_node(manifest.node, path)
        file = manifest.file
        if spot is not None and exact and node.kind == "scalar":
            places = TextPositions(file, node)
            line, column = places.place(spot.start)
            # The end of a range is exclusive, and the position after the last character may be on the next line.
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
        # One object may be checked by several selectors of one class; each mistake is reported once.
        if known in self._seen:
            return
        self._seen.add(known)
        line, column, length = place
        file, level = manifest.file, RULES[rule].level
        where = (file.name, line, column, length, title_of(manifest), str(path))
        self.found.append(LintFinding(rule, level, message, *where, hint, file.line(line)))


def title_of(manifest: Manifest) -> str:
    """Return «kind/name», with the namespace if it is set."""
    return "/".join(part for part in (manifest.gvk.kind.lower(), manifest.namespace, manifest.name) if part)


# --- suppression


_COMMENT: Final = re.compile(r"(?:#|//).*?\bcathedra:\s*allow\s+([\w-]+(?:\s*,\s*[\w-]+)*)")
_ONLY_COMMENT: Final = re.compile(r"\s*(?:#|//)")


class Suppressions:
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
        """Return True if a comment suppresses the finding."""
        if not self.lines:
            return False
        places = {finding.line}
        if manifest is not None and finding.path:
            node, key, _ = find_node(manifest.node, finding.path)
            places.add(self._file.place((key or node).start)[0])
        return any(finding.rule in self._near(line) for line in places)

    def _near(self, line: int) -> frozenset[str]:
        """Return the rules that are suppressed on a line, by its own comment and by comment lines right above."""
        found = self.lines.get(line, frozenset())
        above = line - 1
        while above > 0 and _ONLY_COMMENT.match(self._file.line(above)):
            found |= self.lines.get(above, frozenset())
            above -= 1
        return found


def check_comments(manifests: Iterable[Manifest], allowed: Suppressions, findings: Findings) -> None:
    """Enter names of rules that do not exist."""
    first = next(iter(manifests), None)
    if first is None:
        return
    for line, name in _unknown(allowed):
        findings.at("unknown-rule", first, line, f"there is no rule {name}; docs/lint.md lists them")


def _unknown(allowed: Suppressions) -> Iterator[tuple[int, str]]:
    for line, names in allowed.lines.items():
        for name in sorted(names - RULES.keys()):
            yield line, name


# --- requests and their selectors


@dataclass(frozen=True, slots=True)
class SelectorGroup:
    """The selectors of a class or of one request, in order; all of them must be true."""

    path: str
    """Of the class's spec, or of the request."""
    expressions: tuple[str | None, ...]
    """None for a selector that is not of CEL."""
    class_name: str = ""
    """The class whose selectors are evaluated first; "" for a class itself."""
    derived: tuple[str, ...] = ()
    """Expressions of derived attributes."""

    def selector_path(self, number: int) -> str:
        """Return the field of a selector's expression."""
        return f"{self.path}.selectors[{number}].cel.expression"

    def derived_path(self, number: int) -> str:
        """Return the field of a derived attribute's expression."""
        return f"{self.path}.derivedAttributes[{number}].expression"


def claim_spec_of(given: ManifestObject) -> tuple[ResourceClaimSpec, str] | None:
    """Return the spec of a claim or a template, and the path of its ``devices``; None for other kinds."""
    if isinstance(given.object, ResourceClaim):
        return given.object.spec, "spec.devices"
    if isinstance(given.object, ResourceClaimTemplate):
        return given.object.spec.spec, "spec.spec.devices"
    return None


def selector_groups(given: ManifestObject) -> Iterator[SelectorGroup]:
    """Yield the groups of a class, a claim or a template."""
    if isinstance(given.object, DeviceClass):
        yield SelectorGroup("spec", _texts(given.object.spec.selectors))
        return
    found = claim_spec_of(given)
    if found is None:
        return
    spec, path = found
    for number, request in enumerate(spec.devices.requests or ()):
        place = f"{path}.requests[{number}]"
        if request.exactly is not None:
            yield _group(f"{place}.exactly", request.exactly)
        for position, one in enumerate(request.first_available or ()):
            yield _group(f"{place}.firstAvailable[{position}]", one)


def _group(path: str, one: ExactDeviceRequest | DeviceSubRequest) -> SelectorGroup:
    derived = tuple(each.expression for each in one.derived_attributes or ())
    return SelectorGroup(path, _texts(one.selectors), one.device_class_name, derived)


def _texts(selectors: Sequence[DeviceSelector] | None) -> tuple[str | None, ...]:
    return tuple(one.cel.expression if one.cel is not None else None for one in selectors or ())
