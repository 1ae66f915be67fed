"""The types of an ASGI application: what a server calls it with (https://asgi.readthedocs.io)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
"""An event of a request or of its response, distinguished by ``type``."""
Scope: TypeAlias = MutableMapping[str, Any]
"""The facts of a request: method, path, headers."""
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApplication: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Called once for each request and each WebSocket."""
