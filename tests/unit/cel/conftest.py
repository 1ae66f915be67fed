"""Room for deep expressions from the start: hypothesis wants the recursion limit to stay as it is."""

from __future__ import annotations

from cathedra.cel.depth import make_room

make_room("x" * 100)
