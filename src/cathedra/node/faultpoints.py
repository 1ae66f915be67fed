"""Named points at which a process of the node kills itself, for tests of crash recovery (docs/spec/node.md §26).

A crash is only tested where it hurts if it happens between two chosen steps. Each point stands directly behind the step
that it is named after. Without the two environment variables nothing ever happens here. The container shim uses this
too, so it stands on the standard library alone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

POINT_VARIABLE: Final = "CATHEDRA_FAULT_POINT"
"""Names the point at which to die, or is `MARKED`."""
MARK_VARIABLE: Final = "CATHEDRA_FAULT_MARK"
"""A file that arms the point, and is removed on the way out: each time it is made, one process dies once."""

AGENT_POINTS: Final = (
    "agent:volumes-made",
    "agent:claims-prepared",
    "agent:sandbox-made",
    "agent:container-starting",
    "agent:container-started",
    "agent:container-ended",
    "agent:containers-stopped",
    "agent:claims-unprepared",
    "agent:final-status-written",
    "agent:containers-removed",
)
"""Points of the agent, in the order in which a pod reaches them."""
SHIM_POINTS: Final = (
    "shim:request-received",
    "shim:container-saved",
    "shim:container-created",
    "shim:container-recorded",
    "shim:container-started",
    "shim:exit-seen",
    "shim:exit-recorded",
    "shim:container-deleted",
)
"""Points of the container shim, in the order in which a container reaches them."""
MARKED: Final = "marked"
"""In place of a point: the one that the mark's text names, so that processes which live on die at several in turn."""
_KNOWN: Final = frozenset((*AGENT_POINTS, *SHIM_POINTS, MARKED))


class FaultPoints:
    """Dies by SIGKILL when ``point`` is reached while the file ``mark`` exists; "" never does.

    Raises:
        ValueError: there is no such point.
    """

    def __init__(self, point: str = "", mark: Path | None = None) -> None:
        if point and (point not in _KNOWN or mark is None):
            raise ValueError(f"no fault point {point!r}; set {POINT_VARIABLE} to one of {', '.join(sorted(_KNOWN))}")
        self._point = point
        self._mark = mark

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> FaultPoints:
        """Return the point that the environment names, if any.

        Raises:
            ValueError: there is no such point, or no file to mark it with.
        """
        mark = environment.get(MARK_VARIABLE, "")
        return FaultPoints(environment.get(POINT_VARIABLE, ""), Path(mark) if mark else None)

    def reach(self, point: str) -> None:
        """Note that the step that ``point`` is named after has been done."""
        if self._mark is None or self._point not in (point, MARKED):
            return
        try:
            if self._point == MARKED and self._mark.read_text() != point:
                return
            self._mark.unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)
