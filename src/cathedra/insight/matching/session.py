"""The dialogue of ``kubectl dra repl``: a line in, lines out. Terminals and pipes are handled elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from cathedra.allocation import InvalidInput
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.cel.values import text
from cathedra.insight.matching.match import DeviceExpression, compiled_expression, devices_named, explained_parts
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.rendering import attribute_text, wrapped
from cathedra.insight.selectors.devices import DeviceCatalog
from cathedra.printable import counted

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
        return f"{counted(len(self._known.devices), 'device')} in {self._state.source}; :help tells what can be said"

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
        """The values of an expression, devices with the same value together."""
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
        """The value of every part; the conditions of an ``&&`` each by itself, so that none is left out."""
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
