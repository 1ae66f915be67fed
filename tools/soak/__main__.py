"""Run a cluster under churn in real time, and report what has grown: ``python -m tools.soak --minutes 60``.

Each round creates claims, pods, a deployment and a job in a new namespace, watches and changes them, and deletes them.
Before the soak, several rounds run at a time until what has a bound has reached it: the log of the store, the history
of changes, caches. Then the cluster is measured between two rounds, when it is empty, and the last third is compared
with the second. The exit status is 1 if something has grown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.clock import SystemClock
from cathedra.cluster.data.datadir import DataDir
from tools.soak.churn import Churn
from tools.soak.cluster import READY
from tools.soak.figures import LIMITS, Census, Sample, grown, grown_types, medians, sampled, slope

__all__ = ["Soaked", "main", "soaked"]

FEWEST_ROUNDS: Final = 6
AT_ONCE: Final = 4
"""Rounds that run at a time before the soak. Their pods need 12 of the nodes' 16 devices."""
STOP_SECONDS: Final = 60.0
START_SECONDS: Final = 120.0
COUNT_SECONDS: Final = 60.0
CPU_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Soaked:
    """A cluster that is soaked."""

    folder: Path
    process: asyncio.subprocess.Process
    client: Client

    async def counts(self, *, objects: bool) -> dict[str, Any]:
        """Request the number of tasks, and of objects of each type, from the cluster's process."""
        path = self.folder / "counts"
        before = _lines(path)
        self.process.send_signal(signal.SIGUSR2 if objects else signal.SIGUSR1)
        async with asyncio.timeout(COUNT_SECONDS):
            while len(_lines(path)) == len(before):  # noqa: ASYNC110  # another process writes the file
                await asyncio.sleep(0.05)
        counts: dict[str, Any] = json.loads(_lines(path)[-1])
        return counts

    async def objects(self) -> dict[str, int]:
        """Return the number of objects of each type in the cluster's process."""
        found: dict[str, int] = (await self.counts(objects=True))["objects"]
        return found

    async def sample(self, began: float) -> Sample:
        """Measure it."""
        tasks = (await self.counts(objects=False))["tasks"]
        return sampled(self.process.pid, self.folder / "data", time.monotonic() - began, sum(tasks.values()))

    def processor_seconds(self) -> float:
        """Return the processor time that its first process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CPU_TICKS


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@asynccontextmanager
async def soaked(runtime: str) -> AsyncIterator[Soaked]:
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    command = (sys.executable, "-m", "tools.soak.cluster", str(folder / "data"), str(folder / "counts"), runtime)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            if (await process.stdout.readline()).decode().strip() != READY:
                raise RuntimeError("the cluster does not start")
        target = load(DataDir(folder / "data").kubeconfig)
        async with await HTTPTransport.open(target) as transport:
            yield Soaked(folder, process, Client(transport, clock=SystemClock(), field_manager="soak"))
    finally:
        if process.returncode is None:
            process.terminate()
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Outcome:
    """Measurements of a soak."""

    runtime: str
    warm_up: int
    """Rounds before the soak."""
    samples: list[Sample]
    pods: int = 0
    events: int = 0
    processor: float = 0.0
    """Share of one core that the cluster used."""
    problems: tuple[str, ...] = ()

    def table(self) -> str:
        """Return the figures at the start, after each third, and at the end, and their slopes, as Markdown."""
        count = len(self.samples)
        chosen = [self.samples[index] for index in (0, count // 3, 2 * count // 3, -1)]
        minutes = " | ".join(f"{one.seconds / 60:.1f}" for one in chosen)
        rows = [
            f"| minutes | {minutes} | medians of last two thirds | slope in an hour |",
            "|---|---|---|---|---|---|---|",
        ]
        for name in LIMITS:
            unit = " in MiB" if name in ("memory", "store") else ""
            values = " | ".join(f"{getattr(one, name):,.5g}" for one in chosen)
            before, after = medians(self.samples, name)
            rows.append(
                f"| {name}{unit} | {values} | {before:,.5g}, {after:,.5g} | {slope(self.samples, name) * 3600:+,.3g} |"
            )
        return "\n".join(rows)


@dataclass(frozen=True)
class Plan:
    """Options of a soak."""

    minutes: float = 60.0
    warm_up: float = 8.0
    """Minutes before the soak."""
    pause: float = 15.0
    """Seconds between two rounds."""
    runtime: str = "process"


async def soak(plan: Plan) -> Outcome:
    """Churn a cluster for some minutes of real time, with a pause between two rounds, and judge its figures."""
    async with soaked(plan.runtime) as cluster:
        churn = Churn(cluster.client)
        await churn.prepare()
        first = await _warm_up(churn, plan.warm_up * 60)
        began, cpu = time.monotonic(), cluster.processor_seconds()
        samples: list[Sample] = []
        censuses: list[Census] = []
        while (spent := time.monotonic() - began) < plan.minutes * 60 or len(samples) < FEWEST_ROUNDS:
            thirds = len(censuses) + 1
            if thirds < 3 and spent >= plan.minutes * 20 * thirds and len(samples) >= FEWEST_ROUNDS // 3 * thirds:
                censuses.append(Census(len(samples), await cluster.objects()))
            await churn.round(first + len(samples))
            await asyncio.sleep(plan.pause)
            samples.append(await cluster.sample(began))
        censuses.append(Census(len(samples), await cluster.objects()))
        share = (cluster.processor_seconds() - cpu) / (time.monotonic() - began)
    problems = (*grown(samples), *grown_types(censuses))
    return Outcome(plan.runtime, first, samples, churn.pods, churn.events, share, problems)


async def _warm_up(churn: Churn, seconds: float) -> int:
    """Run several rounds at a time for some seconds. Return their number."""
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        async with asyncio.TaskGroup() as group:
            for number in range(rounds, rounds + AT_ONCE):
                group.create_task(churn.round(number))
        rounds += AT_ONCE
    return rounds


def main() -> int:
    """Soak as the options require and print the figures."""
    parser = argparse.ArgumentParser(prog="tools.soak", description="A cluster under churn, measured for growth.")
    parser.add_argument("--minutes", type=float, default=60.0, help="real time, at least six rounds (default 60)")
    parser.add_argument("--warm-up", type=float, default=8.0, help="minutes of many rounds before it (default 8)")
    parser.add_argument("--pause", type=float, default=15.0, help="seconds between two rounds (default 15)")
    parser.add_argument("--runtime", default="process", choices=("process", "simulated"), help="of containers")
    parser.add_argument("--output", type=Path, help="write all samples to this file as JSON")
    options = parser.parse_args()
    outcome = asyncio.run(soak(Plan(options.minutes, options.warm_up, options.pause, options.runtime)))
    if options.output:
        options.output.write_text(json.dumps(asdict(outcome), indent=1))
    print(outcome.table())
    print(
        f"{outcome.warm_up} + {len(outcome.samples)} rounds, {outcome.pods} pods, {outcome.events} events of watches, "
        f"{outcome.processor:.0%} of a core"
    )
    print("\n".join(outcome.problems) or "nothing has grown")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
