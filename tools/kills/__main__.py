"""Kill every part at every fault point that one pod's life reaches, and print the table: ``python -m tools.kills``.

The first pod only shows which points there are. For each of them a pod then runs while that point is marked. A point
that only a start reaches is tried by a start. Exit status 1: something was not true after a restart.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cathedra.node.faultpoints import SHIM_POINTS
from tools.kills.programs import Program
from tools.kills.tables import Cell, kill_table, write_table
from tools.kills.world import Violation, World, world

__all__ = ["Matrix", "Plan", "main", "run", "run_first_starts"]

SHIM: Final = "shim"
WORLDS: Final = ("apart", "together", "first")
START_SECONDS: Final = 15.0


class Matrix:
    """Kills in one world."""

    def __init__(self, place: World) -> None:
        self._world = place

    async def points(self) -> list[str]:
        """Start every part again, let one pod run, and return the points that were reached meanwhile."""
        await self._world.run_next()
        for one in self._world.programs:
            one.kill()
        (self._world.folder / "points").unlink()
        for one in self._world.programs:
            one.start()
        await self._world.run_next()
        return [*_seen(self._world.folder), *SHIM_POINTS]

    async def strike(self, cell: Cell) -> None:
        """Kill once at a point, start again, and check."""
        began = time.monotonic()
        mark = self._world.mark
        mark.write_text(cell.point)
        try:
            await self._world.run_next(may_fail=cell.part == SHIM)
            if mark.exists() and cell.part != SHIM:
                # Perhaps only a start reaches it.
                self._world.program(cell.part).kill()
                await _gone(mark, START_SECONDS)
                await self._world.run_next()
        except (Violation, TimeoutError) as error:
            cell.violations.append(str(error))
        reached = not mark.exists()
        mark.unlink(missing_ok=True)
        cell.kills += reached
        cell.missed += not reached
        cell.slowest = max(cell.slowest, time.monotonic() - began)


async def _gone(path: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    while path.exists() and time.monotonic() < end:  # noqa: ASYNC110, ASYNC240  # another process removes it
        await asyncio.sleep(0.05)


@dataclass(frozen=True)
class Plan:
    """Number of kills for each part."""

    together: bool
    rounds: int = 1
    seconds: float = 3600.0
    seed: int = 1
    only: str = ""


async def run(folder: Path, plan: Plan) -> list[Cell]:
    """Kill at every point some times, in an order drawn from the seed, until the time is used up."""
    async with world(folder, together=plan.together) as place:
        matrix = Matrix(place)
        cells = [Cell(point) for point in await matrix.points() if re.search(plan.only, point)]
        keeping = [asyncio.create_task(one.kept()) for one in place.programs]
        try:
            end = time.monotonic() + plan.seconds
            drawn = random.Random(plan.seed)
            for _ in range(plan.rounds):
                for cell in drawn.sample(cells, len(cells)):
                    if time.monotonic() > end:
                        break
                    await matrix.strike(cell)
                    print(_line(cell), flush=True)
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
        return cells


async def run_first_starts(folder: Path, seconds: float, only: str = "") -> list[Cell]:
    """Kill an API server at each point of its first start, each time on a new directory; its second start must work."""
    plain = folder / "plain"
    plain.mkdir()
    await _started(plain)
    end = time.monotonic() + seconds
    cells = [Cell(point) for point in _seen(plain) if re.search(only, point)]
    for number, cell in enumerate(cells):
        if time.monotonic() > end:
            break
        began, home = time.monotonic(), folder / str(number)
        home.mkdir()
        (home / "mark").write_text(cell.point)
        server = Program("first start", ["apiserver", f"--data-dir={home / 'data'}"], home, "export KUBECONFIG=")
        server.start()
        if await server.until_ready():
            server.stop()
            cell.missed += 1
            continue
        cell.kills += 1
        try:
            await _started(home)
        except Violation as error:
            cell.violations.append(str(error))
        cell.slowest = time.monotonic() - began
        print(_line(cell), flush=True)
    return cells


async def _started(home: Path) -> None:
    server = Program("first start", ["apiserver", f"--data-dir={home / 'data'}"], home, "export KUBECONFIG=")
    server.start()
    try:
        if not await server.until_ready():
            raise Violation(server.said())
    finally:
        server.stop()


def _seen(home: Path) -> list[str]:
    return list(dict.fromkeys((home / "points").read_text().splitlines()))


def _line(cell: Cell) -> str:
    return f"{cell.point}: {cell.kills} kills, {cell.missed} missed, {cell.slowest:.1f} s {cell.violations or ''}"


def main() -> int:
    """Run the matrix as the options require."""
    parser = argparse.ArgumentParser(prog="tools.kills", description="Kill each part at each of its fault points.")
    parser.add_argument("--rounds", type=int, default=1, help="kills at each point (default 1)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="at most, for each of the two worlds")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--only", default="", metavar="REGEX", help="points that match, such as 'scheduler: before'")
    parser.add_argument(
        "--world", action="append", choices=WORLDS, help="five processes, one process, first starts (default: all)"
    )
    parser.add_argument("--write", action="store_true", help="write the table in docs/reliability.md")
    options = parser.parse_args()
    cells: list[Cell] = []
    for world_ in options.world or WORLDS:
        folder = Path(tempfile.mkdtemp(prefix="kills-"))
        if world_ == "first":
            found = asyncio.run(run_first_starts(folder, options.seconds, options.only))
        else:
            plan = Plan(world_ == "together", options.rounds, options.seconds, options.seed, options.only)
            found = asyncio.run(run(folder, plan))
        cells += found
        if not any(cell.violations for cell in found):
            shutil.rmtree(folder, ignore_errors=True)
    print(kill_table(cells))
    missed = sum(cell.missed for cell in cells)
    print(f"{sum(cell.kills for cell in cells)} kills, {missed} times a point was not reached")
    if options.write:
        write_table("kills", kill_table(cells))
    return 1 if any(cell.violations for cell in cells) else 0


if __name__ == "__main__":
    sys.exit(main())
