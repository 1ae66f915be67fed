"""Selectors against the devices of a cluster: names that no device has, other types, errors, no match at all."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final, TypeAlias

from cathedra.allocation import Features
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.cel.errors import CompileError
from cathedra.cel.selector import CompiledSelector, compile_selector
from cathedra.cel.syntax.tree import CallExpr, Const, Expr, walk
from cathedra.cel.values import type_name
from cathedra.insight.linting.expressions import semver_literal
from cathedra.insight.linting.findings import Findings, ManifestObject, SelectorGroup, TextRange
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.selectors.devices import DeviceCatalog, matching_devices
from cathedra.insight.selectors.reads import MAPS, Read, all_reads, path_of, read_of
from cathedra.printable import counted

Answer: TypeAlias = tuple[list[DeviceRecord], list[tuple[DeviceRecord, str]]]
"""Devices that match, and devices on which the selector fails."""
_COMPARED: Final = frozenset(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"))


class DeviceChecks:
    """Evaluates selectors on the devices of a state; ``classes`` are the selectors of all known classes, by name."""

    def __init__(self, state: ClusterState, classes: Mapping[str, tuple[str | None, ...]]) -> None:
        self._classes, self._source = classes, state.source
        self._known = DeviceCatalog(state)
        self._features: Features = state.features
        self._compiled: dict[str, CompiledSelector | None] = {}
        self._matches: dict[tuple[str | None, ...], Answer] = {}
        self._of_class: dict[str, tuple[DeviceRecord, ...]] = {}

    def check(self, given: ManifestObject, group: SelectorGroup, findings: Findings) -> None:
        """Add the findings for the selectors of a group."""
        if group.class_name and group.class_name not in self._classes:
            close = difflib.get_close_matches(group.class_name, self._classes, 1)
            why = f"there is no device class {group.class_name} in {self._source}"
            hint = f"did you mean {close[0]}?" if close else ""
            findings.add("unknown-class", given.manifest, f"{group.path}.deviceClassName", why, hint=hint)
        if not self._known.devices:
            return
        compiled = [self._selector(text) if text is not None else None for text in group.expressions]
        for number, one in enumerate(compiled):
            if one is not None:
                _names(one, self._known, given, group.selector_path(number), findings)
        self._check_matches(given, group, compiled, findings)

    def _selector(self, text: str) -> CompiledSelector | None:
        if text not in self._compiled:
            try:
                self._compiled[text] = compile_selector(
                    text,
                    consumable_capacity=self._features.consumable_capacity,
                    list_attributes=self._features.list_type_attributes,
                )
            except CompileError:
                self._compiled[text] = None
        return self._compiled[text]

    def _check_matches(
        self, given: ManifestObject, group: SelectorGroup, compiled: list[CompiledSelector | None], findings: Findings
    ) -> None:
        """Evaluate the selectors on every device in the allocator's order: the class first, then one selector after the
        other."""
        left, reached = self._in_class(group.class_name), len(self._in_class(group.class_name))
        key: tuple[str | None, ...] = (group.class_name,)
        for number, selector in enumerate(compiled):
            if selector is None or not left:
                return
            path = group.selector_path(number)
            key = (*key, selector.expression)
            if key not in self._matches:
                self._matches[key] = matching_devices(selector, left)
            passed, failed = self._matches[key]
            if failed:
                device, text = failed[0]
                why = f"fails on {len(failed)} of {counted(len(left), 'device')}, as on {device}: {text}"
                findings.add("failing-selector", given.manifest, path, why, spot=_whole(selector))
            elif not passed:
                of = f" of class {group.class_name}" if group.class_name else ""
                why = f"matches none of {counted(len(left), 'device')}{of}"
                why += " that the selectors before it leave" if len(left) != reached else ""
                findings.add("matches-nothing", given.manifest, path, why, spot=_whole(selector))
            left = tuple(passed)

    def _in_class(self, name: str) -> tuple[DeviceRecord, ...]:
        if name not in self._of_class:
            found: list[DeviceRecord] = list(self._known.devices)
            for text in self._classes.get(name, ()):
                selector = self._selector(text) if text is not None else None
                if selector is not None:
                    found, _ = matching_devices(selector, found)
            self._of_class[name] = tuple(found)
        return self._of_class[name]


def _whole(selector: CompiledSelector) -> TextRange:
    return TextRange(0, len(selector.expression))


def _names(
    selector: CompiledSelector, known: DeviceCatalog, given: ManifestObject, path: str, findings: Findings
) -> None:
    """Attributes that no device has, and values of another type than devices have."""

    def add(rule: str, node: Expr, message: str, hint: str) -> None:
        findings.add(rule, given.manifest, path, message, hint=hint, spot=TextRange(node.start, node.end))

    told: set[Read] = set()
    root = selector.program.root
    named = [(node, read) for node, read, _ in all_reads(root)]
    for node in walk(root):
        found = _tested(node)
        if found is not None:
            named.append((node, found))
    for node, read in named:
        if read in told or known.types(read):
            continue
        told.add(read)
        add("unknown-attribute", node, known.absence(read), known.suggestion(read))
    for node in walk(root):
        if isinstance(node, CallExpr) and node.function in _COMPARED:
            for one, other in (node.args, node.args[::-1]):
                wrong = _mismatch(one, other, known)
                if wrong is not None:
                    add("wrong-attribute-type", node, *wrong)


def _tested(node: Expr) -> Read | None:
    """Return the attribute that ``"x" in device.attributes["d"]``, ``has()`` or ``.?x`` tests."""
    if isinstance(node, CallExpr) and node.function == "@in" and isinstance(node.args[0], Const):
        path = path_of(node.args[1], {})
        if path is not None and len(path.steps) == 2 and path.steps[0] in MAPS:
            return Read(*path.steps, str(node.args[0].value))
        return None
    return read_of(node, {})


def _mismatch(one: Expr, other: Expr, known: DeviceCatalog) -> tuple[str, str] | None:
    read = read_of(one, {})
    if read is None or read.map != "attributes" or not isinstance(other, Const):
        return None
    types, written = known.types(read), type_name(other.value)
    if not types or written in types:
        return None
    why = f"{read} is a {' or a '.join(sorted(types))} on all devices that have it, and is compared with a {written}"
    hint = semver_literal(str(other.value)) if types == {"version"} and written == "string" else ""
    return why, hint
