"""What a node agent and its container shim say to each other: JSON lines on the socket ``shim.sock``.

A request is ``{"do": VERB, "tag": N, ...}`` and its answer ``{"tag": N, ...}``, with ``error`` if it was refused. Every
verb may be sent again after a lost connection: a container is started once per ID, and signals and removals of what is
not there are no errors.

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

from typing import Final

__all__ = ["PROTOCOL"]

PROTOCOL: Final = 1
"""Its version. An agent refuses shims of any other: they hold containers that it could lose."""
