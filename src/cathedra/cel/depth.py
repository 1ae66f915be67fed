"""Room for deep expressions: up to 250 levels are legal, which is more than Python's default recursion allows.

The limit is only ever raised, only for expressions long enough to need it, and the nesting itself is bounded by the
parser, so no input can run away with it.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["make_room"]

_ROOM: Final = 30_000
_LONG: Final = 16


def make_room(source: str) -> None:
    """Let the functions of this package recurse as deeply as ``source`` may need."""
    if len(source) > _LONG and sys.getrecursionlimit() < _ROOM:
        sys.setrecursionlimit(_ROOM)
