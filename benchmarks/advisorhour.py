"""The advisor beside a small cluster that changes for an hour: its memory by the minute, and the events that it writes.

Claims are freed and allocated again, and pods that wait come and go. API server and advisor run as processes of their
own, at a rate that leaves the machine to others. Each minute is printed as it ends.

    python -m benchmarks.advisorhour [--minutes 60] [--rate 5]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Final

from benchmarks.advisor import Cluster, Size, processor, resident
from benchmarks.apiserver import Server
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.clock import SystemClock
from cathedra.session.opening import open_transport

SIZE: Final = Size(nodes=20, claims=80, pending=20)
PODS_EVERY: Final = 25
"""Changes of claims for each pod that comes, and one that goes."""
PODS_KEPT: Final = 20


@contextmanager
def advising(folder: Path) -> Iterator[int]:
    """Run the advisor; yields its process id."""
    log = folder / "advisor.log"
    command = [sys.executable, "-m", "cathedra.cli.main", "advisor", f"--kubeconfig={folder / 'kubeconfig'}"]
    with log.open("wb") as output:
        advisor = Popen(command, stdout=output, stderr=output)
    try:
        yield advisor.pid
    finally:
        advisor.terminate()
        advisor.wait()
        sys.stderr.write(log.read_text()[-2000:])


async def change(cluster: Cluster, pid: int, minutes: int, rate: float) -> None:
    """Change the cluster, and print a line each minute."""
    begun, done = time.monotonic(), 0
    used = processor(pid)
    print("minute  MiB  processor, s  changes  events on the server", flush=True)
    for minute in range(1, minutes + 1):
        while (passed := time.monotonic() - begun) < minute * 60:
            if done >= passed * rate:
                await asyncio.sleep(0.05)
                continue
            await cluster.change_claim(done)
            if done % PODS_EVERY == 0:
                await cluster.replace_pod(done // PODS_EVERY, PODS_KEPT)
            done += 1
        shown = f"{minute:6} {resident(pid):6.1f} {processor(pid) - used:8.1f} {done:8}  {await cluster.events():6}"
        print(shown, flush=True)


async def run(folder: Path, minutes: int, rate: float) -> None:
    """Fill the cluster, start the advisor, and change things."""
    async with open_transport(kubeconfig.load(folder / "kubeconfig"), user_agent="bench") as transport:
        cluster = Cluster(Client(transport, clock=SystemClock()), SIZE)
        await cluster.fill()
        with advising(folder) as pid:
            await change(cluster, pid, minutes, rate)


def main() -> int:
    """Start an API server, and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.advisorhour")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=float, default=5.0, help="changes in a second (default 5)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name))
        try:
            server.start()
            asyncio.run(run(Path(name), arguments.minutes, arguments.rate))
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
