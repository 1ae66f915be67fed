"""Log lines with time, level and part: written by one handler, and found again by part or node.

    2026-03-01T12:00:00.123Z WARNING scheduler default/p: no such claim
    2026-03-01T12:00:00.200Z INFO    node/node-0 plugin gpu.example.com registered

The part follows from the logger's name; a library's lines carry the library's name. In a process with several nodes
the node is a context variable, which the tasks of a node inherit. A record may have fields (``extra={"fields": …}``):
they end a line as ``key=value``, and are fields of a JSON line.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Final, Literal

from cathedra.printable import printable, printable_line

NODE: Final[ContextVar[str]] = ContextVar("node", default="")
"""The node that the running task belongs to; "" outside of nodes."""

_PARTS: Final = {
    "apiserver": "apiserver",
    "scheduler": "scheduler",
    "controllers": "controller-manager",
    "node": "node",
    "driver": "driver",
    "drivers": "driver",
}
_PLAIN: Final = re.compile(r"[^\s=\"]+")
_HEAD: Final = re.compile(r"\d{4}-\d\d-\d\dT\S+Z [A-Z]+ +(?P<part>\S+) ")


def configure_logging(level: str, style: Literal["text", "json"], stream: IO[str] | None = None) -> None:
    """Write the log to ``stream`` (standard error) from now on, lines of libraries from warnings on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JSONLines() if style == "json" else _TextLines())
    root = logging.getLogger()
    root.handlers = [handler]
    number = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger("cathedra").setLevel(number)


def part_of(logger: str) -> str:
    """Return the part that a logger belongs to, with its node: ``scheduler``, ``node/node-0``, ``aiohttp``."""
    package, _, rest = logger.partition(".")
    if package != "cathedra":
        return package
    part = _PARTS.get(rest.partition(".")[0], "cluster")
    node = NODE.get()
    if not node:
        return part
    return f"{'node' if part == 'cluster' else part}/{node}"


def lines_of(lines: Iterable[str], wanted: str) -> Iterator[str]:
    """Yield the lines of a part or node ("": all), each with the lines that continue it, as those of a traceback."""
    chosen = not wanted
    for line in lines:
        part = _part_in(line)
        if part and wanted:
            chosen = wanted in (part, *part.split("/"))
        if chosen:
            yield line


def _part_in(line: str) -> str:
    if line.startswith("{"):
        try:
            return str(json.loads(line).get("part", ""))
        except (ValueError, AttributeError):
            return ""
    head = _HEAD.match(line)
    return head["part"] if head else ""


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {key}={_word(value)}" for key, value in _fields(record).items())
        text = f"{_time(record)} {record.levelname:<7} {part_of(record.name)} {record.getMessage()}{fields}"
        # A line feed within a message from outside could forge a line of another part.
        text = printable_line(text)
        return f"{text}\n{printable(self.formatException(record.exc_info))}" if record.exc_info else text


class _JSONLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, str | int] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "part": part_of(record.name),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said |= {key: value for key, value in _fields(record).items() if key not in said}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return printable(json.dumps(said, ensure_ascii=False))


def _fields(record: logging.LogRecord) -> Mapping[str, str | int]:
    """Return the structured fields of the record."""
    fields: Mapping[str, str | int] = getattr(record, "fields", {})
    return fields


def _word(value: str | int) -> str:
    """Return a value as one word, quoted if it is not a plain one."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
