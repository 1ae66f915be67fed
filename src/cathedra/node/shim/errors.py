"""What can go wrong between a node agent and its container shim."""

from __future__ import annotations

from pathlib import Path

__all__ = ["IncompatibleShim", "ShimLost"]


class ShimLost(ConnectionError):
    """The container shim does not answer any more, or cannot be started."""


class IncompatibleShim(Exception):
    """The shim that holds the node's containers is of another version, which this agent does not understand."""

    def __init__(self, directory: Path, found: str, understood: str, pid: int) -> None:
        self.directory, self.found, self.understood, self.pid = directory, found, understood, pid
        super().__init__(
            f"containers in {directory} are held by a container shim that speaks protocol {found}, and this agent "
            f"speaks {understood}; drain the node with the agent that started it, or end it and its containers "
            f"with `kill {pid or 'PID'}`, then start this agent again"
        )
