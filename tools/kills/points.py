"""Fault points in a process: the moments directly before and after each step that another process, or a restart, sees.

The points are put around functions of the program from outside, so that the product has no code for them. Each reached
point is noted in a file; a process dies by SIGKILL at the point that the file of the mark names, and removes the mark.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

__all__ = ["FaultPoints", "install"]

UNWATCHED: Final = frozenset({"leases"})
"""Resources that are written all the time, whatever users do."""
WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
RANDOM: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|\d+")


class FaultPoints:
    """The fault points of one process."""

    def __init__(self, part: str, mark: Path, seen: Path) -> None:
        """``mark`` names the point to die at; each point is written to ``seen`` when it is reached first."""
        self._part, self._mark, self._seen = part, mark, seen
        self._known: set[str] = set()

    def reach(self, step: str) -> None:
        """Die here if this point is marked."""
        point = f"{self._part}: {step}"
        if point not in self._known:
            self._known.add(point)
            with self._seen.open("a") as file:
                file.write(f"{point}\n")
        try:
            if self._mark.read_text() != point:
                return
            self._mark.unlink()
        except OSError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, name: str, step_of: Callable[..., str]) -> None:
        """Put a point before and one after a function; ``step_of`` names the step, or returns "" for none."""
        wrapped = getattr(owner, name)

        @functools.wraps(wrapped)
        async def later(*args: Any, **kwargs: Any) -> Any:
            step = step_of(*args, **kwargs)
            if step:
                self.reach(f"before {step}")
            result = await wrapped(*args, **kwargs)
            if step:
                self.reach(f"after {step}")
            return result

        @functools.wraps(wrapped)
        def now(*args: Any, **kwargs: Any) -> Any:
            step = step_of(*args, **kwargs)
            if step:
                self.reach(f"before {step}")
            result = wrapped(*args, **kwargs)
            if step:
                self.reach(f"after {step}")
            return result

        setattr(owner, name, later if inspect.iscoroutinefunction(wrapped) or name == "call" else now)


def install(points: FaultPoints) -> None:
    """Put points around the durable steps of this process: files, transactions, writes to the API, calls of plugins."""
    from cathedra.apiserver.storage.compaction import Compaction
    from cathedra.apiserver.transport import InProcessTransport
    from cathedra.driver.preparing.service import ClaimService
    from cathedra.node.faultpoints import FaultPoints as NodeFaultPoints
    from cathedra.node.plugins.grpcclient import GRPCPluginClient
    from cathedra.session.opening import UpgradingTransport

    points.around(os, "fsync", lambda descriptor: f"sync of {_file_of(descriptor)}")
    points.around(os, "replace", lambda _, target: f"rename to {_role(os.fspath(target))}")
    points.around(Compaction, "commit", lambda _, writes: "commit of a transaction" if writes else "")
    for transport in (InProcessTransport, UpgradingTransport):
        points.around(transport, "call", lambda _, call: _written(call))
    points.around(GRPCPluginClient, "prepare", lambda *_, **__: "call of NodePrepareResources")
    points.around(GRPCPluginClient, "unprepare", lambda *_, **__: "call of NodeUnprepareResources")
    points.around(ClaimService, "node_prepare_resources", lambda *_, **__: "service of NodePrepareResources")
    points.around(ClaimService, "node_unprepare_resources", lambda *_, **__: "service of NodeUnprepareResources")

    # The agent's own points already stand between two steps.
    def reach(_: NodeFaultPoints, point: str) -> None:
        points.reach(f"after {point.partition(':')[2]}")

    setattr(NodeFaultPoints, "reach", reach)  # noqa: B010  # the type checker takes methods for constants


def _written(call: Any) -> str:
    if call.verb not in WRITES or call.ref.resource in UNWATCHED:
        return ""
    subresource = f"/{call.subresource}" if call.subresource else ""
    return f"{call.verb} {call.ref.resource}{subresource}"


def _file_of(descriptor: int) -> str:
    return _role(os.readlink(f"/proc/self/fd/{descriptor}"))


def _role(path: str) -> str:
    """Return the name of a file without what differs between two runs."""
    name = Path(path.removesuffix(" (deleted)")).name
    if name.startswith(".") and name.endswith(".tmp"):
        name = name[1:].rsplit(".", 2)[0]
    return RANDOM.sub("N", name)
