"""How soon a thread of this process gets the interpreter that another one holds.

The store's writer needs it back a few times for each statement, and Python lets it wait 5 ms each time while the event
loop has work. So the busier the server is, the longer a commit takes: with
64 clients that create objects it took most of a write's latency, and in the end all of them waited for it.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["switch_soon"]

_SECONDS: Final = 0.0005
"""A step of the loop is about as long; shorter would interrupt most of them."""


def switch_soon() -> None:
    """Let no thread of this process wait longer than half a millisecond for its turn. For processes with a store."""
    sys.setswitchinterval(_SECONDS)
