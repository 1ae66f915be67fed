"""Run the attacks and print one table: ``python -m tools.attack``."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tools.attack import commands, custom, drivers, requests, scheduling, sessions, streams, watches
from tools.attack.measuring import Attack, Row, measure
from tools.attack.target import started

__all__ = ["FAMILIES", "main"]


@dataclass(frozen=True)
class Family:
    """Attacks on one kind of input. They share a cluster that is started with ``options``."""

    attacks: Sequence[Attack]
    options: Sequence[str] = ()


FAMILIES: Final[Mapping[str, Family]] = {
    "requests": Family(requests.ATTACKS),
    "sessions": Family(sessions.ATTACKS),
    "audit": Family(sessions.AUDITED, ("--audit-log-path=/dev/null",)),
    "watches": Family(watches.ATTACKS),
    "custom": Family(custom.ATTACKS),
    "streams": Family(streams.ATTACKS),
    "scheduling": Family(scheduling.ATTACKS),
    "drivers": Family(drivers.ATTACKS),
    "commands": Family(commands.ATTACKS),
}
HEADINGS: Final = ("", "attack", "who", "stall", "before", "most", "after", "took", "answers", "input")


def main() -> int:
    """Run what the options name."""
    parser = argparse.ArgumentParser(prog="tools.attack", description="Hard inputs against a fresh cluster.")
    parser.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="an attack or a family (repeatable)"
    )
    parser.add_argument("--list", action="store_true", help="name the attacks and run none")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="for whom")
    options = parser.parse_args()
    chosen = _chosen(options.only)
    if not chosen:
        parser.error(f"there is no attack {' '.join(options.only)}; --list names them")
    if options.list:
        for name, family in chosen.items():
            for one in family.attacks:
                print(f"{name:12} {one.name:28} {one.who:24} {one.size}: {one.input}")
        return 0
    rows = asyncio.run(_all(chosen))
    rows.sort(key=lambda row: -row.badness)
    print(json.dumps([_fields(row) for row in rows], indent=2) if options.output == "json" else _table(rows))
    return 1 if any(row.failed for row in rows) else 0


def _chosen(only: Sequence[str]) -> dict[str, Family]:
    """The families with those of their attacks that are wanted."""
    if not only:
        return dict(FAMILIES)
    chosen = {}
    for name, family in FAMILIES.items():
        attacks = [one for one in family.attacks if name in only or one.name in only]
        if attacks:
            chosen[name] = Family(attacks, family.options)
    return chosen


async def _all(chosen: Mapping[str, Family]) -> list[Row]:
    rows = []
    for name, family in chosen.items():
        print(f"{name}: a fresh cluster ...", file=sys.stderr, flush=True)
        async with started(*family.options) as cluster:
            for one in family.attacks:
                row = await measure(one, cluster)
                print(f"  {_line(row)}", file=sys.stderr, flush=True)
                rows.append(row)
    return rows


def _line(row: Row) -> str:
    verdict = "FAILED" if row.failed else "ok"
    figures = f"stall {row.stall:.2f} s, memory {row.before:.0f} -> {row.after:.0f} MiB (at most {row.most:.0f})"
    return f"{verdict:6} {row.attack.name}: {figures}, {row.seconds:.0f} s, {row.answers}" + (
        f": {row.problem}" if row.problem else ""
    )


def _fields(row: Row) -> dict[str, object]:
    attack = row.attack
    said = {"name": attack.name, "input": attack.input, "size": attack.size, "who": attack.who}
    times = {"stallSeconds": round(row.stall, 3), "seconds": round(row.seconds, 1)}
    memory = {"beforeMiB": round(row.before), "mostMiB": round(row.most), "afterMiB": round(row.after)}
    return said | times | memory | {"answers": row.answers, "problem": row.problem, "ok": not row.failed}


def _table(rows: Sequence[Row]) -> str:
    """The rows for people: columns as wide as their widest entry."""
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS) - 1)]
    lines = []
    for line in cells:
        padded = [
            text.rjust(width) if 3 <= at <= 7 else text.ljust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=False))
        ]
        lines.append("  ".join((*padded, line[-1])).rstrip())
    failed = sum(row.failed for row in rows)
    return "\n".join((*lines, f"{len(rows)} attacks, {failed} failed; memory in MiB"))


def _cells(row: Row) -> tuple[str, ...]:
    attack = row.attack
    memory = (f"{row.before:.0f}", f"{row.most:.0f}", f"{row.after:.0f}")
    times = f"{row.stall:.2f} s", f"{row.seconds:.0f} s"
    about = row.problem or f"{attack.input}, {attack.size}"
    answers = " ".join(f"{status}×{count}" for status, count in row.answers.items())
    return ("FAILED" if row.failed else "ok", attack.name, attack.who, times[0], *memory, times[1], answers, about)


if __name__ == "__main__":
    sys.exit(main())
