"""Evaluation of CEL expressions on the devices of a state.

`match` returns the devices that a selector matches, those on which it fails, and near misses, as data and as text.
The dialogue of ``kubectl dra repl`` is a session of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from cathedra.allocation import Features, InvalidInput
from cathedra.allocation.checks.selectors import cel_device
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.resource import ResourceSlice
from cathedra.cel import device, program
from cathedra.cel.errors import CompileError
from cathedra.cel.explanation import ExpressionExplanation, Finding, explain_program
from cathedra.cel.program import Evaluation, Program
from cathedra.cel.selector import COST_LIMIT
from cathedra.cel.values import CELValue, text
from cathedra.deadline import Interruption
from cathedra.insight.reading.state import ClusterState, Note
from cathedra.insight.rendering import API_VERSION, Style, plain, table_lines, wrapped
from cathedra.insight.selectors.devices import DeviceCatalog
from cathedra.insight.selectors.reads import conjuncts, source_of
from cathedra.printable import counted, printable_values
from cathedra.semantics.groupdomains import attribute_text


def match(
    state: ClusterState, expression: str, *, driver: str = "", interruption: Interruption | None = None
) -> SelectorMatch:
    """Evaluate a selector on every device of a state, or on those of one driver.

    Raises:
        InvalidInput: the expression does not compile or has no truth value, or there is no such driver.
        DeadlineExceeded: ``interruption`` ended it.
    """
    devices = DeviceCatalog(state, driver).devices
    if driver and not devices:
        there = ", ".join(sorted({one.id[0] for one in DeviceCatalog(state).devices})) or "none"
        raise InvalidInput(f"there is no device of driver {driver!r} in {state.source}; there are {there}")
    selector = compiled_expression(expression, state.features)
    if selector.type not in ("bool", "any", "dyn"):
        raise InvalidInput(f"a selector has to be true or false, and this expression is of type {selector.type}")
    judged: list[_EvaluatedDevice] = []
    for each in devices:
        if interruption is not None:
            interruption.check()
        judged.append(_EvaluatedDevice(each, selector))
    matched = [one.device for one in judged if one.verdict is True]
    failed: dict[str, list[str]] = {}
    for one in judged:
        if isinstance(one.verdict, str):
            failed.setdefault(one.verdict, []).append(str(one.device))
    return SelectorMatch(
        expression=expression,
        devices=len(devices),
        matched=tuple(map(str, matched)),
        unmatched=len(devices) - len(matched) - sum(map(len, failed.values())),
        failures=tuple(MatchFailure(error, tuple(names)) for error, names in sorted(failed.items())),
        conditions=tuple(_conditions(selector, judged)),
        near_misses=tuple(_near_misses(judged)) if len(selector.conditions) > 1 else (),
        cost=selector.max_cost,
        nodes=_by_node(state, matched),
        notes=state.notes_on(ResourceSlice),
    )


class _EvaluatedDevice:
    """A device, with the results of the selector and of each of its conditions."""

    __slots__ = ("alone", "device", "verdict", "verdicts")

    def __init__(self, device: DeviceRecord, selector: DeviceExpression) -> None:
        self.device = device
        self.verdicts = [_verdict(part, device) for part in selector.conditions]
        unmet = [place for place, verdict in enumerate(self.verdicts) if verdict is not True]
        self.alone = selector.conditions[unmet[0]] if len(unmet) == 1 else None
        """The only condition that the device does not satisfy; None if there are several, or none."""
        self.verdict: bool | str = not unmet
        if unmet and False not in self.verdicts:
            # The whole expression determines which of several errors is reported.
            self.verdict = _verdict(selector, device)
        elif unmet:
            self.verdict = False


def _verdict(selector: DeviceExpression, device: DeviceRecord) -> bool | str:
    """True, false, or why neither."""
    outcome = selector.outcome(device)
    if outcome.error is not None:
        return outcome.error
    return outcome.value if isinstance(outcome.value, bool) else f"the value {text(outcome.value)} is no bool"


def _conditions(selector: DeviceExpression, judged: list[_EvaluatedDevice]) -> Iterator[MatchCondition]:
    for place, part in enumerate(selector.conditions):
        verdicts = [one.verdicts[place] for one in judged]
        met, unmet = verdicts.count(True), verdicts.count(False)
        alone = sum(one.alone is part for one in judged)
        yield MatchCondition(part.source, met, unmet, len(judged) - met - unmet, alone)


def _near_misses(judged: Iterable[_EvaluatedDevice]) -> Iterator[NearMiss]:
    """Devices that one condition excludes, grouped by equal values; the largest group first."""
    groups: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[str]] = {}
    for one in judged:
        part = one.alone
        if part is None:
            continue
        error = part.outcome(one.device).error or ""
        shown = () if error else _values(part, one.device)
        groups.setdefault((part.source, error, shown), []).append(str(one.device))
    for (source, error, values_of), names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield NearMiss(source, dict(values_of), tuple(names), error)


def _values(part: DeviceExpression, device: DeviceRecord) -> tuple[tuple[str, str], ...]:
    """Return the values of the device that the condition reads."""
    parts = explained_parts(part.explain(device))
    return tuple((one.source, one.shown) for one in parts if one.source != part.source and "device" in one.source)


def _by_node(state: ClusterState, matched: Iterable[DeviceRecord]) -> Mapping[str, int]:
    nodes = {
        (piece.spec.driver, piece.spec.pool.name, one.name): piece.spec.node_name or one.node_name or ""
        for piece in state.cluster.inventory.slices()
        for one in piece.spec.devices or ()
    }
    found: dict[str, int] = {}
    for one in matched:
        node = nodes.get(one.id, "")
        found[node] = found.get(node, 0) + 1
    return dict(sorted(found.items()))


# --- expressions


class DeviceExpression:
    """An expression over ``device`` of any type; it is evaluated once for equal devices."""

    def __init__(self, compiled: Program, features: Features) -> None:
        self._compiled, self._features = compiled, features
        self._known: dict[int, Evaluation] = {}

    @property
    def source(self) -> str:
        """Return the text of the expression."""
        return self._compiled.source

    @property
    def type(self) -> str:
        """The type of its value."""
        return self._compiled.type.declared

    @property
    def max_cost(self) -> int:
        """The estimate of its cost that the API server makes."""
        return self._compiled.max_cost

    def outcome(self, record: DeviceRecord) -> Evaluation:
        """Return its value or error on a device."""
        number = record.signature.number
        if number not in self._known:
            view = cel_device(record.signature)
            if view.failure:
                self._known[number] = Evaluation(None, view.failure, 0)
            else:
                self._known[number] = self._compiled.evaluate({"device": view.root}, COST_LIMIT)
        return self._known[number]

    def explain(self, record: DeviceRecord) -> ExpressionExplanation:
        """Return the same with the value of every part."""
        trace: dict[int, CELValue] = {}
        view = cel_device(record.signature)
        return explain_program(self._compiled, self._compiled.trace({"device": view.root}, trace, COST_LIMIT), trace)

    @cached_property
    def conditions(self) -> tuple[DeviceExpression, ...]:
        """The conditions that ``&&`` joins; the expression itself, if there is only one."""
        parts = [source_of(self.source, one) for one in conjuncts(self._compiled.root)]
        if len(parts) == 1:
            return (self,)
        return tuple(compiled_expression(part, self._features) for part in parts)


def compiled_expression(text: str, features: Features) -> DeviceExpression:
    """Compile an expression under the gates for stored ones.

    Raises:
        InvalidInput: it does not compile; the text has the first error and its position.
    """
    lists = features.list_type_attributes or features.behaviour.lists_are_iterable_without_gate
    declared = device.environment(
        consumable_capacity=features.consumable_capacity, list_attributes=lists, mode="stored"
    )
    try:
        return DeviceExpression(program.compile_expression(text, declared), features)
    except CompileError as error:
        raise InvalidInput(_first_reason(text, error)) from error


def _first_reason(text: str, error: CompileError) -> str:
    if not error.issues:
        return f"the expression does not compile: {' '.join(error.text.split())}"
    line, column = error.issues[0].position(text)
    where = f"{line}:{column}: " if line > 0 else ""
    more = f" (and {len(error.issues) - 1} more)" if len(error.issues) > 1 else ""
    return f"the expression does not compile: {where}{error.issues[0].message}{more}"


def explained_parts(explanation: ExpressionExplanation) -> Iterator[Finding]:
    """Return the parts worth showing: without the maps on the way to an attribute, and each text once."""
    seen: set[str] = set()
    for one in explanation.findings:
        if one.source not in seen and not isinstance(one.value, dict) and one.source != "device":
            seen.add(one.source)
            yield one


class MatchCondition(msgspec.Struct, frozen=True, rename="camel"):
    """One of the conditions that ``&&`` joins, by itself."""

    text: str
    met: int
    """Devices on which it is true."""
    unmet: int
    failed: int
    """Devices on which it is an error."""
    alone: int
    """Devices that only this condition excludes."""


class MatchFailure(msgspec.Struct, frozen=True, rename="camel"):
    """Devices on which the selector fails in the same way."""

    error: str
    devices: tuple[str, ...]


class NearMiss(msgspec.Struct, frozen=True, rename="camel"):
    """Devices that a single condition excludes, with the values that they have instead."""

    condition: str
    values: Mapping[str, str]
    """Part of the condition → its value on these devices."""
    devices: tuple[str, ...]
    error: str = ""
    """The error of the condition; "" if it is false."""


class SelectorMatch(msgspec.Struct, frozen=True, rename="camel"):
    """Result of a selector on all devices; devices are named «driver/pool/device»."""

    expression: str
    devices: int
    """Number of devices on which it was evaluated."""
    matched: tuple[str, ...]
    unmatched: int
    failures: tuple[MatchFailure, ...]
    conditions: tuple[MatchCondition, ...]
    near_misses: tuple[NearMiss, ...]
    cost: int
    """The estimate of the expression's cost; the API server accepts 1,000,000."""
    nodes: Mapping[str, int] = {}
    """Node → how many of its devices match; "" for devices that several nodes can use."""
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> JSONObject:
        """Return the answer as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "SelectorMatch", **found}


# --- text


_NAMED: Final = 8
"""Devices that are named; more are counted."""


def match_text(found: SelectorMatch, width: int = 100, style: Style = plain, *, wide: bool = False) -> str:
    """Return totals first, then devices, errors, and what nearly matches; ``wide`` names every device."""
    found = printable_values(found)
    return "\n".join(line.rstrip() for line in _lines(found, width, style, named=10**9 if wide else _NAMED))


def _lines(found: SelectorMatch, width: int, style: Style, named: int) -> Iterator[str]:
    failed = sum(len(one.devices) for one in found.failures)
    total = f"matches {len(found.matched)} of {counted(found.devices, 'device')}"
    rest = f"; fails on {failed}" if failed else ""
    yield style(total, "good" if found.matched else "bad") + style(rest, "bad")
    if found.matched:
        yield from wrapped(devices_named(found.matched, named), width, "  ", "  ")
    if len(found.nodes) > 1:
        shown = [f"{name or 'several nodes'} {number}" for name, number in list(found.nodes.items())[:named]]
        more = f" and {len(found.nodes) - len(shown)} more" if len(found.nodes) > len(shown) else ""
        yield from wrapped(f"by node: {', '.join(shown)}{more}", width, "  ", "    ")
    for failure in found.failures:
        yield ""
        yield from wrapped(f"Fails on {counted(len(failure.devices), 'device')}: {failure.error}", width, "", "  ")
        yield from wrapped(devices_named(failure.devices, named), width, "  ", "  ")
    if len(found.conditions) > 1:
        yield ""
        head = ("MET", "UNMET", "FAILS", "ONLY THIS", "CONDITION")
        rows = [
            (str(c.met), str(c.unmet), str(c.failed), str(c.alone), " ".join(c.text.split())) for c in found.conditions
        ]
        yield from table_lines(head, rows, width, style)
    if found.near_misses:
        yield ""
        yield style("Near misses: one condition alone keeps them out", "title")
        for miss in found.near_misses:
            why = miss.error or ", ".join(
                f"{' '.join(source.split())} is {value}" for source, value in miss.values.items()
            )
            yield from wrapped(f"- {' '.join(miss.condition.split())}{f': {why}' if why else ''}", width, "  ", "    ")
            yield from wrapped(devices_named(miss.devices, named), width, "      ", "      ")
    for note in found.notes:
        yield from wrapped(f"! {note.text}", width, "", "  ")


def devices_named(names: Sequence[str], number: int = _NAMED) -> str:
    """Return some names, and how many more there are."""
    more = f" and {len(names) - number} more" if len(names) > number else ""
    return f"{', '.join(names[:number])}{more}"


HELP: Final = (
    ("EXPRESSION", "its value on every device; «it» is the last one"),
    (":why DEVICE [EXPRESSION]", "the value of every part of it on one device (default: the last expression)"),
    (":devices", "the devices at hand"),
    (":show DEVICE", "the attributes and capacities of one device"),
    (":names", "the attributes and capacities that expressions can use"),
    (":help", "this"),
    (":quit", "end; so does Ctrl-D"),
)
_NAMES: Final = 6
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MAP: Final = re.compile(r"device\.(attributes|capacity)\[[\"']([^\"']*)\Z")
_FIELD: Final = re.compile(r"device\.(attributes|capacity)\[(?:\"([^\"]+)\"|'([^']+)')\]\.\??([A-Za-z0-9_]*)\Z")
_WORD: Final = re.compile(r"[:\w./-]*\Z")


class SessionEnded(Exception):
    """The user has entered ``:quit``."""


class ReplSession:
    """Answers lines about the devices of a state; remembers the last expression."""

    def __init__(self, state: ClusterState, driver: str = "") -> None:
        self._state = state
        self._known = DeviceCatalog(state, driver)
        self._last: DeviceExpression | None = None

    @property
    def greeting(self) -> str:
        """The first line of the dialogue."""
        return f"{counted(len(self._known.devices), 'device')} in {self._state.source}; :help lists the commands"

    def answer(self, line: str, width: int = 100) -> list[str]:
        """Return the result of a line; errors of the line are returned, too.

        Raises:
            SessionEnded: the user has entered ``:quit``.
        """
        line = line.strip()
        if not line or line.startswith("//"):
            return []
        try:
            return list(self._command(line, width) if line.startswith(":") else self._values(line, width))
        except InvalidInput as error:
            return list(wrapped(f"! {error}", width, "", "  "))

    def completions(self, before: str) -> list[tuple[str, int]]:
        """Return possible continuations of ``before``: texts, and the number of characters before the cursor that they
        replace."""
        if found := _MAP.search(before):
            domains = sorted({one.domain for one in self._known.reads if one.map == found[1]})
            closing = found[0][found[0].index("[") + 1]
            return [(f"{one}{closing}]", len(found[2])) for one in domains if one.startswith(found[2])]
        if found := _FIELD.search(before):
            names = sorted(
                one.name for one in self._known.reads if one.map == found[1] and one.domain == (found[2] or found[3])
            )
            usable = (one for one in names if one.startswith(found[4]) and _IDENTIFIER.match(one))
            return [(one, len(found[4])) for one in usable]
        word = _WORD.search(before)
        begun = word[0] if word is not None else ""
        return [(one, len(begun)) for one in self._words(before) if begun and one.startswith(begun) and one != begun]

    def device(self, name: str) -> DeviceRecord:
        """Return the device of a name, ``pool/name`` or ``driver/pool/name``.

        Raises:
            InvalidInput: there is none, or several have the name.
        """
        if not name:
            raise InvalidInput("which device? as in :why gpu-0; :devices lists them")
        found = [one for one in self._known.devices if name in (one.name, str(one)) or str(one).endswith(f"/{name}")]
        if not found:
            raise InvalidInput(f"there is no device {name!r}; :devices lists them")
        if len(found) > 1 and name != str(found[0]):
            raise InvalidInput(
                f"{counted(len(found), 'device')} have that name: {devices_named(list(map(str, found)), 4)}"
            )
        return found[0]

    def _words(self, before: str) -> Sequence[str]:
        """Return possible completions of a word: commands and devices in a command, fields and functions in an
        expression."""
        if before.lstrip().startswith(":"):
            if " " not in before.lstrip():
                return [usage.split()[0] for usage, _ in HELP if usage.startswith(":")]
            return [each for one in self._known.devices for each in (one.name, str(one))]
        fields = ("device.driver", "device.attributes", "device.capacity", "device.allowMultipleAllocations")
        return (*fields, "quantity(", "semver(", "has(", "cel.bind(", "true", "false")

    def _command(self, line: str, width: int) -> Iterator[str]:
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        match word:
            case ":quit" | ":q" | ":exit":
                raise SessionEnded
            case ":help" | ":h" | ":?":
                size = max(len(usage) for usage, _ in HELP)
                for usage, purpose in HELP:
                    yield from wrapped(f"{usage.ljust(size)}  {purpose}", width, "", " " * (size + 2))
            case ":devices":
                yield from (str(one) for one in self._known.devices)
            case ":names":
                for read, types in sorted(self._known.reads.items(), key=lambda item: str(item[0])):
                    yield f'device.{read.map}["{read.domain}"].{read.name}  {" or ".join(sorted(types))}'
            case ":show":
                yield from self._show(self.device(rest))
            case ":why":
                name, _, expression = rest.partition(" ")
                yield from self._why(self.device(name), expression.strip(), width)
            case _:
                raise InvalidInput(f"there is no command {word}; :help lists them")

    def _values(self, line: str, width: int) -> Iterator[str]:
        """Yield the values of an expression as lines of text, devices with the same value together."""
        self._last = expression = self._expression(line)
        groups: dict[str, list[str]] = {}
        for one in self._known.devices:
            outcome = expression.outcome(one)
            shown = f"error: {outcome.error}" if outcome.error is not None else text(outcome.value)
            groups.setdefault(shown, []).append(str(one))
        if not groups:
            yield f"there are no devices; the expression compiles, its type is {expression.type}"
        for shown, names in sorted(groups.items(), key=lambda item: -len(item[1])):
            yield from wrapped(f"{shown}  on {counted(len(names), 'device')}", width, "", "  ")
            yield from wrapped(devices_named(names, _NAMES), width, "  ", "  ")

    def _expression(self, line: str) -> DeviceExpression:
        if line == "it":
            if self._last is None:
                raise InvalidInput("there is no last expression")
            return self._last
        return compiled_expression(line, self._state.features)

    def _why(self, device: DeviceRecord, text_: str, width: int) -> Iterator[str]:
        """Yield the value of every part as lines of text; the conditions of an ``&&`` each by itself, so that none is
        left out."""
        expression = self._last = self._expression(text_ or "it")
        outcome = expression.explain(device)
        yield f"{device}: {f'error: {outcome.error}' if outcome.error is not None else text(outcome.value)}"
        for condition in expression.conditions:
            for part in explained_parts(condition.explain(device)):
                indent = "  " * (min(part.depth, 6) + 1)
                source = " ".join(part.source.split())
                yield from wrapped(f"{source}  →  {part.shown}", width, indent, indent + "  ")

    def _show(self, device: DeviceRecord) -> Iterator[str]:
        yield str(device)
        for name, value in sorted(device.signature.attributes.items()):
            yield f"  attribute {name}: {attribute_text(value)}"
        for name, amount in sorted(device.signature.capacity.items()):
            yield f"  capacity {name}: {amount.value}"
