"""The container runtime of a node that is about to start.

Which runtime works is found out by running a container (`cathedra.node.runtime.choose`), a fifth of a second in which
this process only waits. So who composes a cluster has it found out while the API server still opens, before there is an
agent; an agent that starts alone begins by itself.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from cathedra.cdi.catalogue import DEFAULT_DIRECTORIES
from cathedra.clock import Clock
from cathedra.files.private import private_directory
from cathedra.node.config import NodeConfig
from cathedra.node.runtime.choose import CANDIDATES, SOCKETS, ChosenRuntime, choose_runtime
from cathedra.node.runtime.runtime import UnusableRuntime

__all__ = ["EarlyRuntime", "choose_configured", "open_root"]

PRIVATE: Final = ("pods", "containers", "pki")
"""Directories with Secrets, tokens, environments and keys."""


def open_root(root: Path) -> None:
    """Make a node's directory, and close in it what others of this machine must not see, also if it was there before.

    Raises:
        NotPrivate: a directory for Secrets is another user's.
    """
    root.mkdir(mode=0o750, parents=True, exist_ok=True)
    for name in PRIVATE:
        private_directory(root / name)


async def choose_configured(config: NodeConfig, clock: Clock) -> ChosenRuntime:
    """The best runtime that ``config``, of a node with a ``root``, asks for and that works.

    Raises:
        UnusableRuntime: the one that was asked for cannot be used here.
    """
    root, wanted = config.root, config.runtime
    assert root is not None, "a simulated node runs no containers"
    candidates = {"auto": CANDIDATES, "oci": CANDIDATES, "process": (), "cri": ()}.get(wanted, (wanted,))
    sockets = (config.cri_socket,) if config.cri_socket else SOCKETS if wanted == "cri" else ()
    chosen = await choose_runtime(
        root / "containers",
        config.cdi_directories or (*DEFAULT_DIRECTORIES, root / "cdi"),
        candidates=candidates,
        sockets=sockets if wanted in {"auto", "cri"} else (),
        clock=clock,
        orphan_seconds=config.orphan_seconds,
    )
    if chosen.missing and wanted not in {"auto", "process"}:
        raise UnusableRuntime(wanted, chosen.why)
    return chosen


class EarlyRuntime:
    """A runtime that is being chosen. An agent takes it once; who had it chosen closes it in the end."""

    def __init__(self, config: NodeConfig, clock: Clock) -> None:
        """Of ``config`` no more need be known yet than what the choice depends on.

        Raises:
            NotPrivate: a directory for Secrets is another user's; nothing has been started.
        """
        assert config.root is not None, "a simulated node runs no containers"
        open_root(config.root)
        self._choosing = asyncio.create_task(choose_configured(config, clock), name=f"runtime of {config.name}")
        self._taken = False

    async def take(self) -> ChosenRuntime:
        """The runtime, which is the caller's from now on; who is cancelled while it waits leaves nothing behind.

        Raises:
            UnusableRuntime: the one that was asked for cannot be used here.
        """
        self._taken = True
        return await self._choosing

    async def close(self) -> None:
        """End a runtime that was not taken, unless it holds containers."""
        if self._taken:
            return
        self._choosing.cancel()
        (chosen,) = await asyncio.gather(self._choosing, return_exceptions=True)
        if isinstance(chosen, ChosenRuntime):
            # Containers that an earlier agent has left wait for the next one.
            found = await chosen.runtime.open(lambda _: None)
            await chosen.runtime.close(stop_containers=not found)
