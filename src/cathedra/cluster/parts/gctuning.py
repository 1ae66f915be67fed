"""The cyclic garbage collector, set up for a process that holds a cluster's state.

Python looks for cycles whenever a few hundred more objects live than before. In an API server nearly all of them are
objects that were just stored: they are no garbage, and walking the heap for them costs a quarter of a write's
time and holds up every request for 100 ms now and then. Hardly anything here is cyclic; what is goes a little later.
"""

from __future__ import annotations

import gc
from typing import Final

__all__ = ["suspend_collection", "tune_collection"]

YOUNG: Final = 50_000
"""New objects between two collections; 700 in Python's own setting. Some 10 MiB at most wait for theirs."""


def suspend_collection() -> None:
    """Look for no cycles while a process starts: what is imported and set up then stays for good."""
    gc.disable()


def tune_collection() -> None:
    """Leave alone what lives already, and look at what comes in larger steps. Called once, when a process has begun
    its service."""
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
    gc.enable()
