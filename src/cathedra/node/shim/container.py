"""A container of the shim, and its state on disk that survives the shim."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cathedra.files.atomic import write_atomic
from cathedra.node.shim.kernel import start_time
from cathedra.node.shim.streams import ContainerStreams

_LOST: Final = "The container could not be located when its container shim was lost.  The container used to be Running"


class ShimContainer:
    """A container, from the request to start it until it is removed.

    ``waiting``: replies to be called when it has started or failed to.
    """

    def __init__(self, container_id: str, request: dict[str, Any], directory: Path) -> None:
        self.id = container_id
        self.request = request
        self.directory = directory
        self.pid = 0
        self.started_at = 0.0
        """Set before its program may run for the first time; 0: it never has."""
        self.recorded_process = ""
        """The kernel's start time of the process ``pid``, recorded before its program ran."""
        self.announced = False
        """True if its start was answered, so that agents may be notified of it."""
        self.exit: dict[str, Any] | None = None
        self.early_status: int | None = None
        """Exit status, if it ended before its start was answered."""
        self.memory_cgroup = ""
        self.streams: ContainerStreams | None = None
        self.waiting: list[Callable[..., None]] = []
        self.closing = contextlib.ExitStack()
        """Descriptors that are open only until the container runs or has ended."""

    @property
    def oci(self) -> bool:
        """Return True if a container runtime runs it, or it is a process of ours."""
        return bool(self.request["kind"] == "oci")

    @property
    def tty(self) -> bool:
        """Return True if its input and output are a terminal."""
        return bool(self.request.get("tty"))

    @property
    def stdin(self) -> bool:
        """Return True if its input can be written to."""
        return bool(self.request.get("stdin"))

    @property
    def stdin_once(self) -> bool:
        """Return True if its input ends with the first attached connection."""
        return bool(self.request.get("stdin_once"))

    @property
    def runtime(self) -> list[str]:
        """Return the first words of the container runtime's command lines."""
        return [*self.request["runtime"], "--log", str(self.directory / "runtime.log"), "--log-format", "json"]

    def public(self) -> dict[str, Any]:
        """Return the container as agents receive it."""
        return {
            "id": self.id,
            "label": self.request["label"],
            "pid": self.pid,
            "started_at": self.started_at,
            "exit": self.exit,
        }

    def problem(self) -> str:
        """The last thing that the container runtime wrote into its log."""
        try:
            last = (self.directory / "runtime.log").read_text(errors="replace").strip().rpartition("\n")[2]
            return str(json.loads(last)["msg"])
        except (OSError, ValueError, KeyError):
            return "the container runtime gave no reason"

    def note_lost(self, now: float) -> None:
        """Its shim is gone, and its exit code with it. Reason and code are those of a kubelet that misses one."""
        self.exit = {"code": 137, "signal": 0, "finished_at": now, "reason": "ContainerStatusUnknown", "message": _LOST}

    def save(self) -> None:
        """Write down what a later shim has to know.

        Where that cannot be done (the disk is full, the directory was removed) this shim still holds its containers.
        """
        content = {"request": self.request, "pid": self.pid, "start": start_time(self.pid)}
        content |= {"started_at": self.started_at, "exit": self.exit}
        with contextlib.suppress(OSError):
            write_atomic(self.directory / "container.json", json.dumps(content).encode())
