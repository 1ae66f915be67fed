"""Messages and errors between node agent and container shim: JSON lines on the socket ``shim.sock``.

A request is ``{"do": VERB, "tag": N, ...}`` and its answer ``{"tag": N, ...}``, with ``error`` if it was refused. Every
verb may be sent again after a lost connection: a container is started once per ID, and it is no error to signal or
remove a container that does not exist.

``list``            the shim's process ID, its protocol, and its containers
``start``           a container: ``id``, ``label``, ``log``, ``kind`` and what the kind needs
``signal``          ``id``, ``number``
``remove``          ``id``
``attach``          ``id``; output is sent as ``{"output": ID, "stream": NAME, "data": BASE64}``
``detach``, ``input``, ``close-input``, ``resize``   of an attached container
``pause``, ``resume``   reading of a container's output, by an agent that cannot take it as fast
``end``             kill and remove everything, then leave

Without a request comes ``{"exited": CONTAINER}``, to every agent that is connected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

PROTOCOL: Final = 1
"""Its version. An agent refuses shims of any other: they hold containers that it could lose."""


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
