"""Programs of a cluster as processes that are killed and started again.

A process is forked from one that has imported every part, so that a start takes a tenth of a second instead of two.
It then runs ``cathedra PART`` as its command line would.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

from cathedra.node.faultpoints import MARK_VARIABLE, MARKED, POINT_VARIABLE
from tools.kills.points import FaultPoints, install

__all__ = ["Program"]

PRELOADED: Final = (
    "cathedra.cli.main",
    "cathedra.cli.parts",
    "cathedra.cluster.cluster",
    "cathedra.cluster.standalone.controlplane",
    "cathedra.cluster.standalone.node",
    "cathedra.drivers.gpu",
    "cathedra.asgi.http1",
    "uvloop",
    "tools.kills.points",
)
START_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.03
_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(list(PRELOADED))


@dataclass
class Program:
    """``cathedra PART`` with its arguments, log and fault points."""

    part: str
    arguments: Sequence[str]
    folder: Path
    ready: str = ""
    """A text of its log from which on it serves."""
    limits: Mapping[int, int] = field(default_factory=dict)
    """Resource limits of the process, for the next start."""
    watched: bool = True
    """Put fault points into the process, from the next start on."""
    deaths: int = 0
    _process: ForkServerProcess | None = None
    _began: int = 0

    @property
    def log(self) -> Path:
        """The file of its output."""
        return self.folder / f"{self.part}.log"

    @property
    def pid(self) -> int:
        """Its process; 0 if there is none."""
        return (self._process.pid or 0) if self.running and self._process else 0

    @property
    def running(self) -> bool:
        """True until it has ended."""
        return self._process is not None and self._process.is_alive()

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None if it runs."""
        return None if self._process is None else self._process.exitcode

    def start(self) -> None:
        """Start it."""
        self._began = self.log.stat().st_size if self.log.exists() else 0
        arguments = (self.part, list(self.arguments), self.folder, dict(self.limits), self.watched)
        self._process = _CONTEXT.Process(target=_run, args=arguments)
        self._process.start()

    async def until_ready(self) -> bool:
        """Wait until it serves. Return False if it ended before."""
        async with asyncio.timeout(START_SECONDS):
            while self.ready not in self.said():
                if not self.running:
                    return False
                await asyncio.sleep(LOOK_SECONDS)
        return True

    def said(self) -> str:
        """Return what it has logged since its last start."""
        with contextlib.suppress(FileNotFoundError), self.log.open("rb") as file:
            file.seek(self._began)
            return file.read().decode(errors="replace")
        return ""

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def stop(self) -> None:
        """End it in order."""
        if self._process is not None and self._process.is_alive():
            self._process.terminate()
            self._process.join(30)
            self.kill()

    async def kept(self) -> None:
        """Start it again each time it has died, until cancelled."""
        while True:
            if not self.running:
                self.deaths += 1
                self.start()
            await asyncio.sleep(LOOK_SECONDS)


def _run(part: str, arguments: Sequence[str], folder: Path, limits: Mapping[int, int], watched: bool) -> None:
    """Run the command in this new process."""
    from cathedra.cli.main import main

    log = os.open(folder / f"{part}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit))
    mark = folder / "mark"
    # The container shim has no packages of Python's site, so its own points serve it; it inherits these variables.
    os.environ.update({POINT_VARIABLE: MARKED, MARK_VARIABLE: str(mark)})
    if watched:
        install(FaultPoints(part, mark, folder / "points"))
    sys.argv = ["cathedra", *arguments]
    sys.exit(main(arguments))
