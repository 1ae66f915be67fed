"""Why not, as data: the answer when claims do not fit a node.

A refusal costs nothing until somebody asks for its reasons: it keeps the problem and computes from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cathedra.allocation.reasons import RefusalExplanation, RequestReason

__all__ = ["Refusal"]


class Refusal:
    """The claims do not fit ``node``.

    ``states`` is None, or says that the search was stopped after so many states: then nothing is known.
    """

    __slots__ = ("_explain", "_explanation", "node", "states")

    def __init__(self, node: str, explain: Callable[[], RefusalExplanation], states: int | None = None) -> None:
        self.node = node
        self.states = states
        self._explain = explain
        self._explanation: RefusalExplanation | None = None

    @property
    def stopped(self) -> bool:
        """Whether the search was given up, rather than finished."""
        return self.states is not None

    @property
    def reasons(self) -> tuple[RequestReason, ...]:
        """Per request, or sub-request, what stands in its way; computed when first asked for."""
        return self._explained.requests

    @property
    def fits_when_free(self) -> bool | None:
        """Whether the claims would fit if no device were in use; None if that search was stopped, too."""
        return self._explained.fits_when_free

    @property
    def _explained(self) -> RefusalExplanation:
        if self._explanation is None:
            self._explanation = self._explain()
        return self._explanation

    def __str__(self) -> str:
        if self.stopped:
            return f"{self.node}: stopped after {self.states} states"
        return f"{self.node}: " + "; ".join(str(reason) for reason in self.reasons)

    def __repr__(self) -> str:
        return f"Refusal({self.node!r}, states={self.states!r})"
