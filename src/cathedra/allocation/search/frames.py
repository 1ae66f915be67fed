"""The stack of a depth-first search: one frame per decision that is still open.

A pod may ask for more devices than Python's functions may nest, and the recursion limit belongs to the whole process;
so the searches keep their own stack. A frame is asked to go on: first without a result, then with the result of the
frame that it put on top of itself.
"""

from __future__ import annotations

import enum
from typing import Protocol

__all__ = ["Frame", "SearchResult", "depth_first"]


class SearchResult(enum.Enum):
    """What a branch of a search came to."""

    FOUND = enum.auto()
    NOTHING = enum.auto()
    EXCEEDED = enum.auto()
    """The claim would get more than 32 devices: no use trying other devices, only other sub-requests."""


class Frame(Protocol):
    """One open decision."""

    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        """Go on: with the next frame, whose ``result`` comes back, or with the result of this one.

        ``result`` is None the first time, and never FOUND: then the whole search is over.
        """
        ...


def depth_first(first: Frame) -> SearchResult:
    """The result of ``first``. The first FOUND ends everything: what the open frames have chosen is the solution."""
    frames = [first]
    result: SearchResult | None = None
    while frames:
        step = frames[-1].advance(result)
        if step.__class__ is not SearchResult:
            frames.append(step)  # type: ignore[arg-type]  # a frame, as it is no result
            result = None
            continue
        if step is SearchResult.FOUND:
            return step
        result = step
        frames.pop()
    assert result is not None
    return result
