"""The node's HTTP interface, on the kubelet's own paths: logs, exec, pods, health and metrics.

docs/spec/node.md §17.10. A plain ASGI application. The API server sends ``kubectl logs`` and ``kubectl exec``
here. Every request is authenticated and authorized before anything of it is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, bad_request, failure, internal_error, not_found
from cathedra.api.struct import Time, to_dict
from cathedra.api.timestamp import TimeError
from cathedra.clock import Clock
from cathedra.node.containers.logfiles import LogOptions, read_log
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.metrics import NodeMetrics
from cathedra.node.pods.podmanager import PodManager
from cathedra.node.pods.worker import PodWorker
from cathedra.node.runtime.runtime import ExecProcess, Runtime, RuntimeFailure
from cathedra.node.server.authentication import RequestAuthenticator
from cathedra.node.server.authorization import RequestAuthorizer
from cathedra.node.server.portforward import PROTOCOLS as FORWARDING
from cathedra.node.server.portforward import TUNNEL, serve_channels, serve_tunnel
from cathedra.node.server.remotecommand import choose_protocol, refuse_command, serve_command
from cathedra.node.setup.directories import log_directory

__all__ = ["ROUTES", "NodeApp", "NodeRequest", "Route"]

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_PODS: Final = GroupResource("", "pods")
_MOST: Final = 2**63 - 1
_MOST_PARAMETERS: Final = 1000
_TRUE: Final = frozenset({"true", "1"})


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A request or WebSocket, parsed once; ``parts`` are those of the path."""

    protocol: str
    method: str
    path: str
    parts: tuple[str, ...]
    query: dict[str, list[str]]
    subprotocols: tuple[str, ...]
    receive: Receive
    send: Send


class NodeApp:
    """Serves the pods of one node."""

    def __init__(
        self,
        pods: PodManager,
        runtime: Runtime,
        metrics: NodeMetrics,
        *,
        root: Path,
        authenticator: RequestAuthenticator,
        authorizer: RequestAuthorizer,
        clock: Clock,
    ) -> None:
        self._pods = pods
        self._runtime = runtime
        self._metrics = metrics
        self._root = root
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._clock = clock
        self._closed = False

    def close(self) -> None:
        """Logs that are followed end now."""
        self._closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request or WebSocket."""
        if scope["type"] == "lifespan":
            return
        try:
            await self._route(scope, receive, send)
        except StatusError as error:
            await _answer_error(scope, receive, send, error)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = await self._authenticator.user_of(scope)
        await self._authorizer.authorize(user, scope.get("method", "GET"), scope["path"])
        request = _parsed(scope, receive, send)
        route = next((r for r in ROUTES if r.first == request.parts[0] and len(request.parts) in r.lengths), None)
        if route is None:
            raise failure(404, "NotFound", "404 page not found")
        if request.method != "GET":
            raise failure(405, "MethodNotAllowed", f"{request.method} is not allowed on {request.path}")
        if route.protocol != request.protocol:
            raise bad_request("Upgrade request required" if route.protocol == "websocket" else "no WebSocket is served")
        await route.serve(self, request)

    async def healthz(self, request: NodeRequest) -> None:
        """The agent runs."""
        await _answer(request.send, 200, b"ok", "text/plain")

    async def pods(self, request: NodeRequest) -> None:
        """The pods of the node, as the agent sees them."""
        items = [{"kind": "Pod", "apiVersion": "v1"} | to_dict(w.pod) for w in self._pods.workers()]
        body = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
        await _answer(request.send, 200, body.encode(), "application/json")

    async def metrics(self, request: NodeRequest) -> None:
        """Measurements under the kubelet's names."""
        await _answer(request.send, 200, self._metrics.text(), "text/plain; version=0.0.4")

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
        query, send = request.query, request.send
        worker = self._worker(namespace, pod)
        record = self._record(worker, container)
        options = self._log_options(query)
        attempt = record.attempt
        if _flag(query, "previous"):
            attempt -= 1
            if attempt < 0:
                raise bad_request(f'previous terminated container "{container}" in pod "{pod}" not found')
        elif record.current is None and record.previous is None and not worker.over:
            reason = record.waiting.reason if record.waiting is not None else "ContainerCreating"
            raise bad_request(f'container "{container}" in pod "{pod}" is waiting to start: {reason}')
        elif record.current is None and attempt > 0:
            attempt -= 1
        metadata = worker.pod.metadata
        path = log_directory(self._root, namespace, pod, metadata.uid) / container / f"{attempt}.log"

        def ended() -> bool:
            now = self._record(worker, container)
            return self._closed or worker.over or now.attempt != attempt or not now.running

        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        async for piece in read_log(path, options, ended=ended):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _log_options(self, query: dict[str, list[str]]) -> LogOptions:
        since = None
        if "sinceSeconds" in query:
            since = self._clock.now() - _number(query, "sinceSeconds", least=1)
        elif "sinceTime" in query:
            try:
                since = Time.parse(query["sinceTime"][0]).timestamp
            except TimeError as error:
                raise bad_request(str(error)) from error
        return LogOptions(
            follow=_flag(query, "follow"),
            tail_lines=_number(query, "tailLines", least=0) if "tailLines" in query else None,
            since=since,
            limit_bytes=_number(query, "limitBytes", least=1) if "limitBytes" in query else None,
            timestamps=_flag(query, "timestamps"),
            stream=query.get("stream", ["All"])[0],
        )

    async def connect(self, request: NodeRequest) -> None:
        """``/exec`` and ``/attach``, each followed by namespace, pod (its UID may come next) and container."""
        action, namespace, pod, *_, container = request.parts
        receive, send = request.receive, request.send
        record = self._record(self._worker(namespace, pod), container)
        protocol = choose_protocol(request.subprotocols)
        if protocol is None:
            raise bad_request("no sub-protocol of v5.channel.k8s.io and v4.channel.k8s.io was offered")
        await receive()  # the connection itself
        await send({"type": "websocket.accept", "subprotocol": protocol})
        # From here on errors go through the WebSocket: of an answer that refuses it, clients show nothing.
        try:
            process = await self._process(action, record, request.query)
        except StatusError as error:
            await refuse_command(error.to_json(), send)
        else:
            await serve_command(process, receive, send)

    async def _process(self, action: str, record: ContainerRecord, query: dict[str, list[str]]) -> ExecProcess:
        current = record.current
        if current is None or not current.running:
            raise internal_error(f'container not found ("{record.name}")')
        try:
            if action == "attach":
                return await self._runtime.attach(current.id)
            return await self._execute(current.id, query)
        except RuntimeFailure as error:
            raise internal_error(error.message) from error

    async def forward(self, request: NodeRequest) -> None:
        """``/portForward/NAMESPACE/POD`` (the pod's UID may come next): connections to ports of a pod."""
        _, namespace, pod, *_ = request.parts
        receive, send = request.receive, request.send
        worker = self._worker(namespace, pod)
        if not any(record.running for record in worker.records):
            raise internal_error(f'pod "{pod}" has no running container')
        protocol = next((p for p in FORWARDING if p in request.subprotocols), None)
        if protocol is None:
            raise bad_request(f"no sub-protocol of {' and '.join(FORWARDING)} was offered")
        ports = [int(port) for port in ",".join(request.query.get("port", ())).split(",") if port.isdecimal()]
        if protocol != TUNNEL and (not ports or max(ports) > 65535):
            raise bad_request('query parameter "port" is required')
        await receive()  # the connection itself
        await send({"type": "websocket.accept", "subprotocol": protocol})
        if protocol == TUNNEL:
            await serve_tunnel(receive, send)
        else:
            await serve_channels(ports, receive, send)

    async def _execute(self, container_id: str, query: dict[str, list[str]]) -> ExecProcess:
        command = tuple(query.get("command", ()))
        if not command:
            raise bad_request("you must specify at least 1 command for the container")
        stdin = _flag(query, "stdin") or _flag(query, "input")
        return await self._runtime.exec(container_id, command, tty=_flag(query, "tty"), stdin=stdin)


@dataclass(frozen=True, slots=True)
class Route:
    """What serves the paths that begin with ``first`` and have one of ``lengths`` parts."""

    first: str
    lengths: tuple[int, ...]
    protocol: str
    """``http`` or ``websocket``."""
    serve: Callable[[NodeApp, NodeRequest], Awaitable[None]]


ROUTES: Final = (
    Route("healthz", (1,), "http", NodeApp.healthz),
    Route("pods", (1,), "http", NodeApp.pods),
    Route("metrics", (1,), "http", NodeApp.metrics),
    Route("containerLogs", (4,), "http", NodeApp.logs),
    Route("exec", (4, 5), "websocket", NodeApp.connect),
    Route("attach", (4, 5), "websocket", NodeApp.connect),
    Route("portForward", (3, 4), "websocket", NodeApp.forward),
)
"""Everything that a node serves. Each needs its row in tests/security/test_node_server.py."""


def _parsed(scope: Scope, receive: Receive, send: Send) -> NodeRequest:
    try:
        query = parse_qs(scope["query_string"].decode(), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        raise bad_request(f"the query cannot be read: {error}") from error
    return NodeRequest(
        protocol=scope["type"],
        method=scope.get("method", "GET"),
        path=scope["path"],
        parts=tuple(scope["path"].removeprefix("/").split("/")),
        query=query,
        subprotocols=tuple(scope.get("subprotocols", ())),
        receive=receive,
        send=send,
    )


def _flag(query: dict[str, list[str]], name: str) -> bool:
    return query.get(name, [""])[0].lower() in _TRUE


def _number(query: dict[str, list[str]], name: str, *, least: int) -> int:
    try:
        number = int(query[name][0])
    except ValueError as error:
        raise bad_request(f"{name} must be a number") from error
    if number < least:
        raise bad_request(f"{name} must be at least {least}")
    if number > _MOST:
        raise bad_request(f"{name} must be at most {_MOST}")
    return number


async def _answer(send: Send, status: int, body: bytes, content_type: str) -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _answer_error(scope: Scope, receive: Receive, send: Send, error: StatusError) -> None:
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
