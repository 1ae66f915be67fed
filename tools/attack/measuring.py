"""One attack: its measurement, its verdict.

The stall is the longest answer of ``/livez`` that an independent process saw between the beginning of the attack and
its end, when connections are closed. Memory is that of the cluster's processes before, at most, and after the attack,
when its connections are closed and the cluster had time to give memory back.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.attack.client import Connection
from tools.attack.target import Cluster

__all__ = ["GROWTH_MIB", "STALL_SECONDS", "Attack", "Reached", "Row", "Scene", "measure"]

STALL_SECONDS: Final = 1.0
GROWTH_MIB: Final = 100.0
PREPARE_SECONDS: Final = 120.0
"""For the preparation of an attack, at most."""
LIMIT_SECONDS: Final = 60.0
"""For which one attack may go on; what has not ended then is broken off and measured all the same."""
HELD_SECONDS: Final = 2.0
"""For which an attack's connections stay open after its last message."""
SETTLE_SECONDS: Final = 30.0
"""In which a cluster gives memory back, at most."""
LOOK_SECONDS: Final = 0.2
ANSWER_SECONDS: Final = 120.0
"""For which the probe is waited for at the end, at most."""


class Reached(Exception):
    """The attack reached something that is forbidden; the text names it."""


class Scene:
    """A running attack. `begin` marks the end of its preparation; what it holds is closed at its end."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.before = 0.0
        self.began = math.nan
        self.program: tuple[float, float] | None = None
        self._held: list[Connection] = []
        self._timeout = asyncio.timeout(PREPARE_SECONDS)

    async def run(self, attack: Attack) -> str:
        """Run an attack, and return what went wrong."""
        try:
            async with self._timeout:
                await attack.run(self)
        except TimeoutError:
            return "" if self.begun else "its preparation took too long"
        except Reached as reached:
            return str(reached)
        except ConnectionError as error:
            return "" if self.begun else f"its preparation failed: {error}"
        except (RuntimeError, OSError, EOFError) as error:
            return f"{type(error).__name__}: {error}"
        return "" if self.begun else "it did not begin"

    @property
    def begun(self) -> bool:
        """True after the preparation."""
        return not math.isnan(self.began)

    def begin(self) -> None:
        """Measure from now on."""
        self._timeout.reschedule(asyncio.get_running_loop().time() + LIMIT_SECONDS)
        self.cluster.server.statuses.clear()
        self.before = self.cluster.memory()
        self.began = time.monotonic()

    def used(self, before: float, most: float) -> None:
        """Report the memory of a program that is not the cluster's, before and at most."""
        self.program = before, most

    def hold(self, connection: Connection) -> Connection:
        """Keep a connection open until the attack has ended."""
        self._held.append(connection)
        return connection

    def release(self) -> None:
        """Close what is held."""
        for connection in self._held:
            connection.abort()
        self._held.clear()


@dataclass(frozen=True)
class Attack:
    """An input that is made to be hard."""

    name: str
    input: str
    """Description of the input."""
    size: str
    who: str
    """User whose credentials it needs."""
    run: Callable[[Scene], Awaitable[None]] = field(repr=False)
    growth: float = GROWTH_MIB
    """MiB that it may leave in use."""


@dataclass(frozen=True)
class Row:
    """Effects of an attack; memory in MiB, times in seconds."""

    attack: Attack
    stall: float
    before: float
    most: float
    after: float
    seconds: float
    answers: Mapping[int, int] = field(default_factory=dict)
    """Number of responses by status."""
    problem: str = ""

    @property
    def growth(self) -> float:
        """Memory that the attack leaves in use."""
        return self.after - self.before

    @property
    def failed(self) -> bool:
        """True if a limit is exceeded, or something forbidden was reached."""
        return bool(self.problem) or self.stall > STALL_SECONDS or self.growth > self.attack.growth

    @property
    def badness(self) -> float:
        """Largest ratio of a figure to its limit, for sorting."""
        return max(self.stall / STALL_SECONDS, self.growth / self.attack.growth, 1000.0 if self.problem else 0.0)


class _Probe:
    """The measuring process, and what it has seen."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._seen: list[tuple[float, float, str]] = []
        self._new = asyncio.Event()

    async def follow(self) -> None:
        """Take its lines until it ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            began, took, outcome = line.decode().split()
            self._seen.append((float(began), float(took), outcome))
            self._new.set()

    async def seen_after(self, moment: float) -> None:
        """Wait until a request that began after ``moment`` has been answered."""
        while not self._seen or self._seen[-1][0] < moment:
            self._new.clear()
            await self._new.wait()

    def longest(self, since: float) -> tuple[float, str]:
        """The longest request that ended after ``since``, and the first outcome that was no success."""
        seen = [one for one in self._seen if one[0] + one[1] >= since]
        wrong = next((outcome for _, _, outcome in seen if outcome != "200"), "")
        return max((took for _, took, _ in seen), default=0.0), wrong


@asynccontextmanager
async def _probing(port: int) -> AsyncIterator[_Probe]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(Path(__file__).parent / "probe.py"), str(port), stdout=asyncio.subprocess.PIPE
    )
    probe = _Probe(process)
    following = asyncio.create_task(probe.follow())
    try:
        await probe.seen_after(0.0)
        yield probe
    finally:
        process.kill()
        await process.wait()
        await following


async def measure(attack: Attack, cluster: Cluster) -> Row:
    """Run an attack beside the probe."""
    scene = Scene(cluster)
    async with _probing(cluster.server.port) as probe:
        most = 0.0

        async def look() -> None:
            nonlocal most
            while True:
                if scene.begun:
                    most = max(most, cluster.memory())
                await asyncio.sleep(LOOK_SECONDS)

        looking = asyncio.create_task(look())
        problem = await scene.run(attack)
        if not scene.begun:
            looking.cancel()
            scene.release()
            return Row(attack, 0.0, 0.0, 0.0, 0.0, 0.0, problem=problem)
        await asyncio.sleep(HELD_SECONDS)
        ended = time.monotonic()
        scene.release()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await probe.seen_after(ended)
        await _settled(cluster, scene.before)
        looking.cancel()
        stall, wrong = probe.longest(scene.began)
    if wrong:
        problem = problem or f"/livez answered {wrong}"
    after = cluster.memory()
    if not after:
        problem = "the cluster has ended"
    before = scene.before
    if scene.program is not None:
        before, most = scene.program
        after = most
    answers = dict(sorted(cluster.server.statuses.items()))
    return Row(attack, stall, before, max(most, after), after, ended - scene.began, answers, problem)


async def _settled(cluster: Cluster, before: float) -> None:
    """Wait until the cluster has given its memory back, or had the time to."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while cluster.memory() - before > GROWTH_MIB / 2 and time.monotonic() < deadline:  # noqa: ASYNC110  # other processes
        await asyncio.sleep(LOOK_SECONDS)
