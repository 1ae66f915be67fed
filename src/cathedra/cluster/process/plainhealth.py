"""Port of a node agent or driver for health and metrics: plain HTTP, for probes of the same machine or pod.

A kubelet has it as ``--healthz-port`` (10248), DRA drivers as ``--http-endpoint``. Nothing here is confidential; the
metrics of a node are at its serving port, for authorized users.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from cathedra.client.denials import Denials
from cathedra.cluster import InvalidOption
from cathedra.exposition import CONTENT_TYPE, text_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_PLAIN: Final = b"text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class PlainEndpoint:
    """Address of the port; port 0: none."""

    option: str
    """The option that chose it, for errors."""
    address: str = "127.0.0.1"
    port: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InvalidOption(f"{self.option} must be between 0 and 65535, got {self.port}")


def endpoint_of(option: str, text: str) -> PlainEndpoint:
    """``ADDRESS:PORT`` or ``:PORT`` (every address), as Go programs take it; "" is none.

    Raises:
        InvalidOption: it is of another form.
    """
    if not text:
        return PlainEndpoint(option)
    address, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise InvalidOption(f"{option} must be ADDRESS:PORT or :PORT, got {text!r}")
    return PlainEndpoint(option, address.strip("[]") or "0.0.0.0", int(port))


class PlainHealth:
    """The ASGI application of the port."""

    def __init__(
        self, ready: Callable[[], str], registry: CollectorRegistry | None, denials: Denials | None = None
    ) -> None:
        """``ready`` returns the parts that are not ready yet, or ""; ``denials`` are shown by ``/readyz?verbose``."""
        self._denials = denials
        self._ready = ready
        self._registry = registry

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Serve one HTTP request; other scopes are ignored."""
        if scope["type"] != "http":
            return
        code, body, kind = self._answer(scope)
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _answer(self, scope: Mapping[str, Any]) -> tuple[int, bytes, bytes]:
        method, path = scope["method"], scope["path"]
        if method not in ("GET", "HEAD"):
            return 405, b"method not allowed\n", _PLAIN
        if path in ("/healthz", "/livez"):
            return 200, b"ok", _PLAIN
        if path == "/readyz":
            missing = self._ready()
            if missing:
                return 500, f"[-]{missing}\n".encode(), _PLAIN
            return 200, health_text(scope, self._denials).encode(), _PLAIN
        if path == "/metrics" and self._registry is not None:
            return 200, text_of(self._registry.collect()), CONTENT_TYPE
        return 404, b"404 page not found\n", _PLAIN


def health_text(scope: Mapping[str, Any], denials: Denials | None) -> str:
    """Return the body of a health answer that is ok: with ``/readyz?verbose`` also the rights that were missing."""
    verbose = scope["path"] == "/readyz" and "verbose" in parse_qs(
        scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True
    )
    if not verbose:
        return "ok"
    return "\n".join(("[+]ping ok", *(denials.lines() if denials is not None else ()), "readyz check passed")) + "\n"


@asynccontextmanager
async def serving_plain_health(
    endpoint: PlainEndpoint,
    ready: Callable[[], str],
    registry: CollectorRegistry | None = None,
    denials: Denials | None = None,
    *,
    say: Callable[[str], None],
) -> AsyncIterator[None]:
    """Serve while the body runs; without a port nothing is served.

    Raises:
        InvalidOption: the port cannot be opened.
    """
    if not endpoint.port:
        yield
        return
    from cathedra.asgi.listener import Listener, bind  # start-up time: with the port alone

    try:
        listening = bind(endpoint.address, endpoint.port)
    except OSError as error:
        raise InvalidOption(f"{endpoint.option} {endpoint.port} of {endpoint.address}: {error.strerror}") from error
    listener = Listener(PlainHealth(ready, registry, denials), listening, None)
    await listener.start()
    shown = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
    say(f"health{' and metrics' if registry is not None else ''} at http://{shown}:{endpoint.port}")
    try:
        yield
    finally:
        await listener.stop()
