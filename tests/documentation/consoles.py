"""Console blocks: found in a page, run in one shell, and compared with what the page shows.

A line that begins with ``$`` is a command; the lines after it are its output. A command without output shown must
succeed, no more. «…» stands for anything in a line, and alone for any number of lines. Ages, ports, process numbers,
seconds, UUIDs and generated names are masked.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Step", "read_steps", "run_steps", "same"]

PATIENCE: Final = 120.0
"""Seconds within which what is only read must come to look as shown."""
_READING: Final = re.compile(r"kubectl (?:--kubeconfig \S+ )?(?:get|describe|logs) |cathedra (?:status|list)\b")
_END: Final = "--end-of-command--"
_MASKS: Final = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\b\d+\.\d+ s\b"), "SECONDS"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\bprocess \d+|\brunning \(\d+\)"), "PROCESS"),
    (re.compile(r"(?<=-)[a-z0-9]{5}(?=[\s/\]]|$)"), "NAME"),
    (re.compile(r"(?<=\s)(?:\d+[smhd])+(?=\s|$)"), "AGE"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Step:
    """A command, the lines that the page shows after it, and where it stands."""

    where: str
    command: str
    shown: tuple[str, ...]


def read_steps(page: Path) -> list[Step]:
    """All steps of a page, in order."""
    steps: list[Step] = []
    inside, command, shown, line_of = False, "", [], 0
    indent = 0

    def finish() -> None:
        if command:
            steps.append(Step(f"{page.name}:{line_of}", command, tuple(shown)))

    for number, raw in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not inside:
            if raw.strip() == "```console":
                inside, indent = True, len(raw) - len(raw.lstrip())
            continue
        line = raw[indent:]
        if line.startswith("```"):
            finish()
            inside, command, shown = False, "", []
        elif line.startswith("$ "):
            finish()
            command, shown, line_of = line[2:], [], number
        elif command.endswith("\\"):
            command = f"{command}\n{line}"
        else:
            shown.append(line)
    return steps


def same(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Return True if the output equals that of the page."""
    pattern = ""
    for line in shown:
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += ".*".join(map(re.escape, _masked(line).split("…"))) + r"\n"
    return re.fullmatch(pattern, "".join(f"{_masked(line)}\n" for line in printed)) is not None


def _masked(line: str) -> str:
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return line.strip()


class Shell:
    """One bash for all steps of a page, so that directories and variables hold from one to the next."""

    def __init__(self, directory: Path, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._count = 0
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, command: str) -> tuple[int, list[str]]:
        """The exit code of a command, and what it printed on both outputs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # A background process must not hold the pipe that signals the end of the command.
        text = command.rstrip()
        run = f"{{ {text}\n}}" if text.endswith("&") else text
        # A file for each command: what is still in the background writes to the one of its own.
        self._count += 1
        output = self._log.with_name(f"{self._log.name}-{self._count}")
        self._process.stdin.write(f"{{ {run}\n}} > {output} 2>&1 < /dev/null\necho {_END} $?\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(_END):
                return int(line.split()[1]), output.read_text(errors="replace").splitlines()
        raise AssertionError(f"the shell ended in: {command}")

    def close(self) -> None:
        """End the shell and what it left in the background."""
        assert self._process.stdin is not None
        self._process.stdin.write("kill $(jobs -p) 2>/dev/null; wait\nexit\n")
        self._process.stdin.close()
        self._process.wait(120)


def run_steps(steps: list[Step], shell: Shell) -> Iterator[str]:
    """Run the steps in order. Return a text for each whose output differs from the page."""
    for step in steps:
        code, printed = shell.run(step.command)
        deadline = time.monotonic() + PATIENCE
        reading = _READING.match(step.command) is not None
        while reading and step.shown and not same(step.shown, printed) and time.monotonic() < deadline:
            time.sleep(0.2)
            code, printed = shell.run(step.command)
        text = "\n".join(printed)
        if code != 0:
            yield f"{step.where}: $ {step.command}\nended with {code}:\n{text}"
        elif step.shown and not same(step.shown, printed):
            yield f"{step.where}: $ {step.command}\nshown:\n{chr(10).join(step.shown)}\nprinted:\n{text}"
