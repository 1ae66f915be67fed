"""The keeper as a program: goes into the background once it can be reached."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cathedra.node.keeper.keeper import Keeper

__all__ = ["main"]


def main() -> None:
    """Arguments: the directory, the seconds for which containers go on without an agent, the cgroup ("" for none)."""
    directory = Path(sys.argv[1])
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    keeper = Keeper(directory, float(sys.argv[2]), sys.argv[3])
    listener = keeper.prepare()
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    keeper.run(listener)
