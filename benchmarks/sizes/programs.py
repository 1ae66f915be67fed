"""Programs that run beside the measurement: the server and the agents, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from cathedra.memory import resident_bytes

TICK: Final = 0.01
QUIET: Final = 0.35
"""Share of a core below which the start counts as completed."""
LEASE_SHARE: Final = 0.00005
"""Share of a core that is added for each node: agents renew their leases for ever."""
SETTLED_SECONDS: Final = 60.0
"""A server with 10,000 nodes on a machine with other work is never quiet."""


Report = dict[str, Any]
"""Resources that a process has used until an event."""


class _Cost(NamedTuple):
    processor: float
    each: float
    stall: float


class Program:
    """A part of the cluster in a process of its own, and what it reports in lines of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def said(self, event: str) -> Report:
        """Wait for an event, and return its report."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            found: Report = json.loads(line)
            if found["event"] == event:
                return found
        raise RuntimeError(f"the process ended before the event {event!r}")

    def send(self, *words: str) -> None:
        """Send a command, whose end is an event of its name."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words).encode() + b"\n")

    async def command(self, *words: str) -> Report:
        """Have it carry out a command, and return the report of its end."""
        self.send(*words)
        return await self.said(words[0])

    async def mark(self) -> Report:
        """Return its processor time, memory, and longest stall since the last mark."""
        return await self.command("mark")

    async def share(self, seconds: float, of: str = "processor") -> float:
        """Return the share of a core that it takes now, or that it would take if it were alone on its core."""
        before = await self.mark()
        await asyncio.sleep(seconds)
        after = await self.mark()
        return float((after[of] - before[of]) / (after["at"] - before["at"]))

    async def settle(self, nodes: int) -> None:
        """Wait until the start is completed, or `SETTLED_SECONDS` have passed."""
        quiet = QUIET + nodes * LEASE_SHARE
        ends = time.monotonic() + SETTLED_SECONDS
        while await self.share(3.0, "demand") >= quiet and time.monotonic() < ends:
            pass

    async def cost(self, load: Callable[[], Awaitable[int]]) -> _Cost:
        """Return what a load costs it; the load returns the number of its steps."""
        before = await self.mark()
        count = await load()
        after = await self.mark()
        processor = after["processor"] - before["processor"]
        return _Cost(processor, processor / count, after["stall"])


@asynccontextmanager
async def program(part: str, folder: Path, nodes: int) -> AsyncIterator[Program]:
    """Run a part until the block ends."""
    with (folder / "bench.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.sizes", f"--{part}", str(folder), str(nodes)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    try:
        yield Program(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


class _Stalls:
    """The longest stall of this event loop."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            before = time.thread_time()
            await asyncio.sleep(TICK)
            self.longest = max(self.longest, time.thread_time() - before)


class Reports:
    """Events of this process, as lines of JSON on its standard output, and commands on its standard input."""

    def __init__(self) -> None:
        self._stalls = _Stalls()

    def say(self, event: str) -> None:
        """Report an event, with what this process has used so far."""
        # On a busy machine a process that starts gets little of a core, as one at rest does. The system also counts the
        # time for which the main thread waited for a core.
        ran, waited, _ = Path("/proc/self/schedstat").read_text().split()
        report = {
            "event": event,
            "at": time.monotonic(),
            "processor": time.process_time(),
            "demand": (int(ran) + int(waited)) / 1e9,
            "memory": resident_bytes() / 2**20,
            "stall": self._stalls.longest,
        }
        print(json.dumps(report), flush=True)

    async def obey(self, carry_out: Callable[[str, str], Awaitable[None]]) -> None:
        """Carry out commands, each with the name of a node or nothing, until the standard input ends."""
        loop, commands = asyncio.get_running_loop(), asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        watching = asyncio.create_task(self._stalls.run())
        while words := (await commands.readline()).decode().split():
            if words != ["mark"]:
                await carry_out(words[0], words[1] if words[1:] else "")
            self.say(words[0])
            if words == ["mark"]:
                self._stalls.longest = 0.0
        watching.cancel()
