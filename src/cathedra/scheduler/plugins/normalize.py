"""Scores of any range brought to 0…100, as kube-scheduler does it by default."""

from __future__ import annotations

from collections.abc import Sequence

from cathedra.scheduler.framework.plugin import MAX_SCORE

__all__ = ["normalized"]


def normalized(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    """The largest score becomes 100, or 0 if ``reverse``; the others follow in proportion, rounded down."""
    top = max(scores, default=0)
    if top == 0:
        return [MAX_SCORE if reverse else 0] * len(scores)
    scaled = [MAX_SCORE * score // top for score in scores]
    return [MAX_SCORE - score for score in scaled] if reverse else scaled
