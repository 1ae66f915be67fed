"""One row of the table."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Measurement"]


class Measurement(NamedTuple):
    """A measured value in ``unit``, with Kubernetes' own figure and the goal, if any."""

    name: str
    value: float
    unit: str
    kubernetes: str | float | None = None
    goal: str | float | None = None

    def line(self) -> str:
        """The row as the table shows it."""
        figures = " ".join(f"{_shown(figure):>14}" for figure in (self.value, self.kubernetes, self.goal))
        return f"{self.name:<64} {figures}  {self.unit}"


def _shown(value: str | float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
