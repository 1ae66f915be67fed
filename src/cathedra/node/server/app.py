"""The node's HTTP interface, on the kubelet's own paths: logs, exec, pods, health and metrics.

docs/spec/node.md §17.10. A plain ASGI application. The API server sends ``kubectl logs`` and ``kubectl exec``
here. Every request is authenticated and authorized before it is parsed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.core.authorization_v1 import ResourceAttributes
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, bad_request, failure, not_found
from cathedra.api.struct import Time, to_dict
from cathedra.api.timestamp import TimeError
from cathedra.asgi.application import Receive, Scope, Send
from cathedra.client.client import Client
from cathedra.client.reviews import AccessReviews, ExpiringCache, RequestAuthenticator, user_key
from cathedra.clock import Clock
from cathedra.node.concurrency import Event
from cathedra.node.containers.logfiles import LogOptions, LogWrites, read_log
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.metrics import NodeMetrics
from cathedra.node.pods.podmanager import PodManager
from cathedra.node.pods.usage import UsageMeter
from cathedra.node.pods.worker import PodWorker
from cathedra.node.runtime.runtime import Runtime
from cathedra.node.server.streams import NodeRequest, StreamServer, parsed
from cathedra.node.setup.directories import log_directory

_PODS: Final = GroupResource("", "pods")


@dataclass(frozen=True, slots=True)
class ServedNode:
    """The parts of a node that its server shows."""

    pods: PodManager
    runtime: Runtime
    meter: UsageMeter
    root: Path


class NodeApp:
    """Serves the pods of one node."""

    def __init__(
        self,
        node: ServedNode,
        *,
        authenticator: RequestAuthenticator,
        authorizer: RequestAuthorizer,
        metrics: NodeMetrics,
        clock: Clock,
    ) -> None:
        self._pods = node.pods
        self._streams = StreamServer(node.runtime)
        self._metrics = metrics
        self._meter = node.meter
        self._root = node.root
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._clock = clock
        self._closing = asyncio.Event()
        self.log_writes = LogWrites()

    def close(self) -> None:
        """End the logs that are followed."""
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket."""
        if scope["type"] == "lifespan":
            return
        try:
            await self._route(scope, receive, send)
        except StatusError as error:
            await _answer_error(scope, send, error)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = await self._authenticator.user_of(scope)
        await self._authorizer.authorize(user, scope.get("method", "GET"), scope["path"])
        request = parsed(scope, receive, send)
        route = next((r for r in ROUTES if r.first == request.parts[0] and len(request.parts) in r.lengths), None)
        if route is None:
            raise failure(404, "NotFound", "404 page not found")
        if request.method not in (("GET", "POST") if route.streams and request.streams else ("GET",)):
            raise failure(405, "MethodNotAllowed", f"{request.method} is not allowed on {request.path}")
        if route.streams and not request.streams:
            raise bad_request("Upgrade request required")
        if request.protocol == "websocket" and not route.streams:
            raise bad_request("no WebSocket is served")
        await route.serve(self, request)

    async def healthz(self, request: NodeRequest) -> None:
        """Respond ok: the agent runs."""
        await _answer(request.send, 200, b"ok", "text/plain")

    async def pods(self, request: NodeRequest) -> None:
        """Send the pods of the node, as the agent sees them."""
        items = [{"kind": "Pod", "apiVersion": "v1"} | to_dict(w.pod) for w in self._pods.workers()]
        body = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
        await _answer(request.send, 200, body.encode(), "application/json")

    async def metrics(self, request: NodeRequest) -> None:
        """Measurements under the kubelet's names."""
        await _answer(request.send, 200, self._metrics.text(), "text/plain; version=0.0.4")

    async def stats(self, request: NodeRequest) -> None:
        """``/stats/summary``: what the node's pods use."""
        if request.parts[1] != "summary":
            raise failure(404, "NotFound", "404 page not found")
        await _answer(request.send, 200, json.dumps(await self._meter.summary()).encode(), "application/json")

    def _worker(self, namespace: str, name: str) -> PodWorker:
        worker = self._pods.find(namespace, name)
        if worker is None:
            raise not_found(_PODS, name)
        return worker

    @staticmethod
    def _record(worker: PodWorker, container: str) -> ContainerRecord:
        record = next((record for record in worker.records if record.name == container), None)
        if record is None:
            raise bad_request(f"container {container} is not valid for pod {worker.pod.metadata.name}")
        return record

    async def logs(self, request: NodeRequest) -> None:
        """``/containerLogs/NAMESPACE/POD/CONTAINER``: what a container has written."""
        _, namespace, pod, container = request.parts
        send = request.send
        worker = self._worker(namespace, pod)
        record = self._record(worker, container)
        options = self._log_options(request)
        attempt = _logged_attempt(request, record, worker)
        metadata = worker.pod.metadata
        path = log_directory(self._root, namespace, pod, metadata.uid) / container / f"{attempt}.log"
        gone = asyncio.Event()

        def ended() -> bool:
            now = self._record(worker, container)
            ending = self._closing.is_set() or gone.is_set()
            return ending or worker.over or now.attempt != attempt or not now.running

        def changes() -> tuple[asyncio.Event | Event, ...]:
            return worker.next_change, self._closing, gone

        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        watching = asyncio.create_task(_watch_client(request, gone), name="log client") if options.follow else None
        try:
            async with contextlib.aclosing(
                read_log(path, options, self.log_writes, ended=ended, changes=changes)
            ) as pieces:
                async for piece in pieces:
                    if gone.is_set():
                        return
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            if watching is not None:
                watching.cancel()

    def _log_options(self, request: NodeRequest) -> LogOptions:
        since, query = None, request.query
        if "sinceSeconds" in query:
            since = self._clock.now() - request.number("sinceSeconds", least=1)
        elif "sinceTime" in query:
            try:
                since = Time.parse(query["sinceTime"][0]).timestamp
            except TimeError as error:
                raise bad_request(str(error)) from error
        return LogOptions(
            follow=request.flag("follow"),
            tail_lines=request.number("tailLines", least=0) if "tailLines" in query else None,
            since=since,
            limit_bytes=request.number("limitBytes", least=1) if "limitBytes" in query else None,
            timestamps=request.flag("timestamps"),
            stream=query.get("stream", ["All"])[0],
        )

    async def connect(self, request: NodeRequest) -> None:
        """``/exec`` and ``/attach``, each followed by namespace, pod (its UID may come next) and container."""
        _, namespace, pod, *_, container = request.parts
        await self._streams.connect(request, self._record(self._worker(namespace, pod), container))

    async def forward(self, request: NodeRequest) -> None:
        """``/portForward/NAMESPACE/POD`` (the pod's UID may come next): connections to ports of a pod."""
        _, namespace, pod, *_ = request.parts
        await self._streams.forward(request, self._worker(namespace, pod))


class NodeRoute(msgspec.Struct, frozen=True):
    """Handler of the paths that begin with ``first`` and have one of ``lengths`` parts."""

    first: str
    lengths: tuple[int, ...]
    streams: bool
    """True if requests are WebSockets or upgrades; otherwise plain requests."""
    serve: Callable[[NodeApp, NodeRequest], Awaitable[None]]


ROUTES: Final = (
    NodeRoute("healthz", (1,), False, NodeApp.healthz),
    NodeRoute("pods", (1,), False, NodeApp.pods),
    NodeRoute("metrics", (1,), False, NodeApp.metrics),
    NodeRoute("stats", (2,), False, NodeApp.stats),
    NodeRoute("containerLogs", (4,), False, NodeApp.logs),
    NodeRoute("exec", (4, 5), True, NodeApp.connect),
    NodeRoute("attach", (4, 5), True, NodeApp.connect),
    NodeRoute("portForward", (3, 4), True, NodeApp.forward),
)
"""Everything that a node serves. Each needs its row in tests/security/test_node_server.py."""


def _logged_attempt(request: NodeRequest, record: ContainerRecord, worker: PodWorker) -> int:
    """Return the attempt whose log is requested: the current one, the last one that ended, or the previous one."""
    attempt = record.attempt
    pod = worker.pod.metadata.name
    if request.flag("previous"):
        if attempt == 0:
            raise bad_request(f'previous terminated container "{record.name}" in pod "{pod}" not found')
        return attempt - 1
    if record.current is not None:
        return attempt
    if record.previous is None and not worker.over:
        reason = record.waiting.reason if record.waiting is not None else "ContainerCreating"
        raise bad_request(f'container "{record.name}" in pod "{pod}" is waiting to start: {reason}')
    return max(attempt - 1, 0)


async def _watch_client(request: NodeRequest, gone: asyncio.Event) -> None:
    """Set ``gone`` when the client leaves: of a log to which nothing is written, sending would not notice."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    gone.set()


async def _answer(send: Send, status: int, body: bytes, content_type: str) -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _answer_error(scope: Scope, send: Send, error: StatusError) -> None:
    body = error.status.message.encode()
    if scope["type"] == "http":
        await _answer(send, error.code, body, "text/plain; charset=utf-8")
        return
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": error.status.message[:120]})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "websocket.http.response.start", "status": error.code, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


# Authorization of requests to the node's server.
#
# As a kubelet with webhook authorization, SubjectAccessReviews decide: a request needs a verb on a sub-resource of the
# node, ``nodes/proxy`` or a narrower one (KEP-2862). Positive results are cached for five minutes, negative ones for 30
# seconds.

ALLOWED_SECONDS: Final = 300.0
REFUSED_SECONDS: Final = 30.0

_VERBS: Final = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PROXY: Final = "proxy"
_SUBRESOURCES: Final = {
    "stats": ("stats",),
    "metrics": ("metrics",),
    "logs": ("log",),
    "pods": ("pods", _PROXY),
    "runningPods": ("pods", _PROXY),
    "healthz": ("healthz", _PROXY),
    "configz": ("configz", _PROXY),
}
"""By the first part of the path. Each of the sub-resources alone suffices."""

_Question = tuple[Hashable, str, str]
"""Key of the user, verb and sub-resource."""


def subresources_of(path: str) -> tuple[str, ...]:
    """Return the sub-resources of the node of which one must be allowed for ``path``, in the order of the reviews.

    Only a path that begins with exactly such a name gets its sub-resource: others need ``proxy``.
    """
    first = path.removeprefix("/").partition("/")[0] if path.startswith("/") else ""
    return _SUBRESOURCES.get(first, (_PROXY,))


class RequestAuthorizer:
    """Checks with the API server that users may use this node's server."""

    def __init__(self, client: Client, node: str, clock: Clock) -> None:
        self._reviews = AccessReviews(client)
        self._node = node
        self._known: ExpiringCache[_Question, bool] = ExpiringCache(clock, 8192)

    async def authorize(self, user: UserInfo, method: str, path: str) -> None:
        """Check that ``user`` may make the request.

        Raises:
            StatusError: 403, the user may not; 500, the API server does not answer.
        """
        verb, subresources = _VERBS.get(method, ""), subresources_of(path)
        what = f"user={user.username}, verb={verb}, resource=nodes, subresource(s)=[{' '.join(subresources)}]"
        for subresource in subresources:
            try:
                allowed = await self._allowed(user, verb, subresource)
            except (StatusError, ConnectionError) as error:
                raise failure(500, "InternalError", f"Authorization error ({what})") from error
            if allowed:
                return
        raise failure(403, "Forbidden", f"Forbidden ({what})")

    async def _allowed(self, user: UserInfo, verb: str, subresource: str) -> bool:
        question = (user_key(user), verb, subresource)
        known = self._known.get(question)
        if known is not None:
            return known
        wanted = ResourceAttributes(verb=verb, version="v1", resource="nodes", subresource=subresource, name=self._node)
        allowed = await self._reviews.allows(user, wanted)
        self._known.put(question, allowed, ALLOWED_SECONDS if allowed else REFUSED_SECONDS)
        return allowed
