"""Run the test suite in several pytest processes, with progress and one summary.

    python tools/suite.py [--python PATH] [--passed FILE] [PHASE...] [-- PYTEST_OPTION...]

Up to three parts run beside each other, and the next one begins when one has ended. A line is printed for each test
file when it is done, failures as soon as their process has ended. The last lines are a table of all parts, why tests
were skipped, and ``N passed, N failed, N skipped``. The exit status is 0 only if every process ended well and ran
tests.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

FRONT: Final = tuple(
    f"tests/unit/{name}" for name in ("allocation", "api", "cel", "classic", "cluster", "controllers", "kinds")
)
SERVER: Final = ("tests/unit/apiserver",)
COMMANDS: Final = tuple(f"tests/{name}" for name in ("browser", "cli", "documentation", "mission"))
PHASES: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    # The longest part of a phase begins first: what is left at the end is short.
    "unit": {
        "unit-back": ("tests/unit", *(f"--ignore={path}" for path in (*FRONT, *SERVER))),
        "unit-front": FRONT,
        "unit-server": SERVER,
    },
    "programs": {
        "integration": ("tests/integration",),
        "commands": COMMANDS,
        "others": ("tests", *(f"--ignore={path}" for path in ("tests/unit", "tests/integration", *COMMANDS))),
    },
    "integration": {"integration": ("tests/integration",)},
    # What depends on programs that may be missing, for runs without them.
    "optional": {
        "integration": ("tests/integration",),
        "others": (
            "tests/cli",
            "tests/documentation",
            "tests/playground",
            "tests/unit/node/runtime",
            "tests/unit/node/shim",
            "tests/unit/node/setup",
        ),
    },
}
# Tests of programs wait for most of their time. Unit tests, which compute, use the processors meanwhile.
DEFAULT: Final = ("programs", "unit")
PROCESSES: Final = 3
"""Number of parts that run at a time, on any number of processors, since tests of all parts wait now and then."""
OUTCOMES: Final = ("passed", "failed", "errors", "skipped")

_NO_TESTS: Final = 5
"""The status of a pytest process that found no tests."""
_COUNT: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")
_CLOSING: Final = re.compile(r"^=* ?(?:\d+ \w+,? ?)+in [\d.]+s.*$|^=* ?no tests ran.*$")
_SKIPPED: Final = re.compile(r"^SKIPPED \[(\d+)\] (?:\S+?:(?:\d+:)? )?(.*)$")
_SECTION: Final = re.compile(r"^=+ (?:ERRORS|FAILURES|warnings summary|short test summary info|slowest.*) =+$")
_FILE: Final = re.compile(r"^(tests/\S+\.py) ?(.*?)(?: *\[ *(\d+%)\])?$")


@dataclass
class PartReport:
    """Output of one pytest process that the summary needs."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)
    """Failures and pytest's own summary, printed in one piece."""
    others: deque[str] = field(default_factory=lambda: deque(maxlen=200))
    """The last lines that are neither progress nor details: why a process crashed."""
    closing: str = ""
    status: int | None = None
    seconds: float = 0.0
    selected: bool = False
    """True if options select tests, so that a part may have none."""

    def take(self, line: str) -> str:
        """Take in one line of pytest's output, and return the line of progress to print, "" for none."""
        if found := _SKIPPED.match(line):
            self.skips[found[2]] += int(found[1])
        if _CLOSING.match(line):
            self.closing = line
            self.counts.update({_plural(name): int(number) for number, name in _COUNT.findall(line)})
        if self.details or _SECTION.match(line) or self.closing:
            self.details.append(line)
            return ""
        found = _FILE.match(line)
        if found is None:
            self.others.append(line)
            return ""
        return f"{self.name:<12} {found[3] or '':>4}  {found[1]} {found[2]}".rstrip()

    @property
    def ended_well(self) -> bool:
        """True if pytest succeeded and printed the number of tests."""
        none_chosen = self.selected and self.status == _NO_TESTS
        return (self.status == 0 or none_chosen) and bool(self.closing)


def summary(reports: Sequence[PartReport], seconds: float) -> list[str]:
    """Return the closing lines for all parts."""
    lines = [f"{'part':<14}" + "".join(f"{name:>9}" for name in OUTCOMES) + f"{'seconds':>9}"]
    for report in reports:
        figures = "".join(f"{report.counts[name]:>9}" for name in OUTCOMES)
        ending = "" if report.ended_well or report.status == 1 else f"  ended with status {report.status}"
        lines.append(f"{report.name:<14}{figures}{report.seconds:>9.0f}{ending}")
    skips: Counter[str] = sum((report.skips for report in reports), Counter())
    lines += [f"skipped {number}: {reason}" for reason, number in skips.most_common()]
    total: Counter[str] = sum((report.counts for report in reports), Counter())
    # A process that ended otherwise than by failed tests counts as one failure: a crash must not read as success.
    crashed = sum(not report.ended_well and report.status != 1 for report in reports)
    failed = total["failed"] + total["errors"] + crashed
    lines.append(f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped in {seconds:.0f}s")
    return lines


def run_part(
    command: Sequence[str], name: str, words: Sequence[str], options: Sequence[str], lock: threading.Lock
) -> PartReport:
    """Run one pytest process to its end, and print its progress under ``lock``."""
    report, began = PartReport(name, selected=bool(options)), time.monotonic()
    process = subprocess.Popen(
        [*command, "-p", "no:cacheprovider", "--color=no", *words, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "160"},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if shown := report.take(line.rstrip("\n")):
            with lock:
                print(shown, flush=True)
    report.status = process.wait()
    report.seconds = time.monotonic() - began
    with lock:
        details = report.details if report.closing else (*report.others, *report.details)
        print(f"\n{name}: ended after {report.seconds:.0f} s", *details, "", sep="\n", flush=True)
    return report


def run(command: Sequence[str], phases: Iterable[str], options: Sequence[str]) -> list[PartReport]:
    """Run the parts of the phases by ``command``, which starts pytest, and return their reports in order."""
    lock = threading.Lock()
    parts = [part for phase in phases for part in PHASES[phase].items()]
    with ThreadPoolExecutor(PROCESSES) as threads:
        return list(threads.map(lambda part: run_part(command, *part, options, lock), parts))


def _plural(outcome: str) -> str:
    return {"error": "errors", "xfailed": "passed", "xpassed": "passed"}.get(outcome, outcome)


def main(words: Sequence[str]) -> int:
    """Run what the words name; the exit status."""
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description="Run the test suite, with progress and one summary.")
    parser.add_argument("--python", default=sys.executable, help="the interpreter (default: this one)")
    parser.add_argument(
        "--passed", metavar="FILE", help="skip the tests that FILE lists, and add those that pass to it"
    )
    parser.add_argument("phases", nargs="*", metavar="PHASE", help=f"of {', '.join(PHASES)}; default: all tests")
    arguments = parser.parse_args(words[:split])
    if unknown := [phase for phase in arguments.phases if phase not in PHASES]:
        parser.error(f"unknown phases: {', '.join(unknown)}")
    began = time.monotonic()
    command = [arguments.python, "-m", "pytest", *([f"--passed={arguments.passed}"] if arguments.passed else [])]
    reports = run(command, arguments.phases or DEFAULT, words[split + 1 :])
    print(*summary(reports, time.monotonic() - began), sep="\n", flush=True)
    return 0 if all(report.ended_well for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
