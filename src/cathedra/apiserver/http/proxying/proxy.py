"""Logs, exec and other streams, passed on to the agent of the node that runs the pod (docs/spec/apimachinery.md §12).

The node's address and port come from its status, as for a kubelet; paths and parameters are the kubelet's. The HTTP
client is imported with the first request that needs it, because its import would make every start longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from cathedra.api.core.core_v1 import Pod
from cathedra.api.field import ErrorList
from cathedra.api.nesting import load_json
from cathedra.api.status import StatusError, bad_request, failure, invalid, not_found
from cathedra.apiserver.answerbody import read_start, read_whole
from cathedra.apiserver.http.answers.response import Response
from cathedra.apiserver.http.proxying.passing import PassedRequests, pass_websocket, refusal_of
from cathedra.apiserver.http.proxying.reverse import ReverseProxy
from cathedra.apiserver.http.proxying.targets import NodeEndpoint, agent_of
from cathedra.apiserver.http.proxying.upgrades import NodeAnswer, copy_both_ways
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.request import Call
from cathedra.apiserver.routes import NODES, PODS
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.asgi.application import Send
from cathedra.asgi.upgrade import SWITCHING, UPGRADE, Upgrade

if TYPE_CHECKING:
    import aiohttp

    from cathedra.apiserver.authentication.pki import KubeletTLS
    from cathedra.apiserver.http.proxying.connections import KubeletConnections

_UPGRADED: Final = frozenset({"attach", "exec", "portforward"})
_SUMMARY_SECONDS: Final = 10.0
_LONGEST_SUMMARY: Final = 16 * 1024 * 1024
_LOG: Final = logging.getLogger(__name__)
_LONGEST_ERROR: Final = 64 * 1024
"""Bytes of a node's refusal that are passed on."""
_PARAMETERS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}


class Proxy:
    """Passes requests on to the agents of nodes. ``tls`` has the certificates; None is plain HTTP."""

    def __init__(self, server: ServerContext, tls: KubeletTLS | None = None) -> None:
        self._server = server
        self._tls = tls
        self._connections: KubeletConnections | None = None
        self.own_summary: Callable[[str], Awaitable[Any] | None] = lambda _: None
        """Returns the usage of the pods of a node that runs in this process; None for other nodes."""
        self._passed = PassedRequests()
        self._reverse = ReverseProxy(server.registry, self._nodes, self._passed)

    async def close(self) -> None:
        """Close the connections to nodes, pods and services."""
        await self._reverse.close()
        if self._connections is not None:
            await self._connections.close()

    async def http(self, request: Request, call: Call, send: Send) -> Response | None:
        """Answer an authorized request. Return None if the answer was sent as a stream, as a log or an upgrade to
        SPDY.

        Raises:
            StatusError: it was refused, or the node cannot be reached.
        """
        if call.subresource == "proxy":
            if UPGRADE in request.scope.get("extensions", {}):
                self._authorize_upgrade(call)
            return await self._reverse.forward(request, call, send)
        if call.subresource == "log":
            return await self._log(request, call, send)
        pod, backend = self._pod_backend(call, request)
        upgrade = request.scope.get("extensions", {}).get(UPGRADE)
        if upgrade is None:
            raise bad_request("Upgrade request required")
        # An upgrade can do what a POST can: a user with the right to get must not run commands through it.
        self._server.authorize(call.but(verb="create"))
        with self._passed.admitted(request.user.name, f"node {backend.node}"):
            return await self._upgrade(request, send, backend, stream_path(pod, call, request), upgrade)

    async def node_summary(self, name: str) -> Any:
        """Return the usage of the pods of a node from its agent; None if the agent cannot be called."""
        if (told := self.own_summary(name)) is not None:
            return await told
        import aiohttp  # see `_nodes`

        try:
            agent = agent_of(self._server.registry, name)
            async with asyncio.timeout(_SUMMARY_SECONDS):
                url = self._url("http", agent, "/stats/summary", None)
                async with self._nodes().session.get(url, allow_redirects=False) as answer:
                    text = await read_whole(answer, _LONGEST_SUMMARY)
                    return load_json(text) if answer.status == 200 else None
        except (aiohttp.ClientError, OSError, StatusError, ValueError) as error:
            _LOG.warning("node %s returns no figures: %s", name, error)
            return None

    async def websocket(self, request: Request, call: Call, send: Send) -> None:
        """Pass an authorized WebSocket on, frame by frame.

        Raises:
            StatusError: it was refused before the upgrade.
        """
        if call.subresource == "proxy":
            self._authorize_upgrade(call)
            await self._reverse.websocket(request, call, send)
            return
        # An upgrade can do what a POST can: a user with the right to get must not run commands through it.
        self._server.authorize(call.but(verb="create"))
        if call.resource != PODS or call.subresource not in _UPGRADED:
            raise failure(404, "NotFound", "the server could not find the requested resource")
        pod, backend = self._pod_backend(call, request)
        path = stream_path(pod, call, request)
        with self._passed.admitted(request.user.name, f"node {backend.node}"):
            await self._tunnel(request, send, self._url("ws", backend, path, stream_query(request)))

    def _authorize_upgrade(self, call: Call) -> None:
        """Authorize an upgrade behind ``proxy``.

        The agent of a node runs commands over such connections, by GET as well. Users with read permissions alone must
        not be able to.

        Raises:
            StatusError: 403, the user may not create there, either.
        """
        if call.resource == NODES:
            self._server.authorize(call.but(verb="create"))

    async def _log(self, request: Request, call: Call, send: Send) -> Response | None:
        pod = self._pod(call)
        container = named_container(pod, request.parameter("container"))
        check_log_options(request, pod)
        if not pod.spec or not pod.spec.node_name:
            return Response(204, b"", b"text/plain")
        check_started(pod, container, previous=request.flag("previous"))
        backend = self._backend(pod)
        query = {key: values[0] for key, values in request.query.items() if key not in {"container", "pretty"}}
        path = f"/containerLogs/{pod.metadata.namespace}/{pod.metadata.name}/{container}"
        import aiohttp  # see `_nodes`

        try:
            with self._passed.admitted(request.user.name, f"node {backend.node}"):
                await self._pass_log(request, send, self._url("http", backend, path, query))
        except aiohttp.ClientError as error:
            raise failure(500, "InternalError", f"Internal error occurred: {error}") from None
        return None

    async def _pass_log(self, request: Request, send: Send, url: str) -> None:
        async with self._nodes().session.get(url) as answer:
            if answer.status != 200:
                raise refusal_of(answer.status, (await read_start(answer, _LONGEST_ERROR)).decode(errors="replace"))
            async with _until_gone(request, answer):
                await self._stream(answer, send, request.audit_id)

    @staticmethod
    async def _stream(answer: aiohttp.ClientResponse, send: Send, audit_id: bytes) -> None:
        import aiohttp  # see `_nodes`

        headers = [
            (b"audit-id", audit_id),
            (b"cache-control", b"no-cache, private"),
            (b"content-type", b"text/plain"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        with contextlib.suppress(OSError, aiohttp.ClientError):  # the node or the client has disconnected
            async for chunk in answer.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _tunnel(self, request: Request, send: Send, url: str) -> None:
        import aiohttp  # see `_nodes`

        try:
            await pass_websocket(request, send, self._nodes().session, url)
        except aiohttp.ClientError as error:
            raise failure(500, "InternalError", f"Internal error occurred: {error}") from None

    async def _upgrade(
        self, request: Request, send: Send, backend: NodeEndpoint, path: str, upgrade: Upgrade
    ) -> Response | None:
        """Pass bytes in both directions once the node has upgraded the connection, or return its answer."""
        query = stream_query(request)
        target = f"{path}?{urlencode(query)}" if query else path
        offered = tuple(request.header_values(b"x-stream-protocol-version"))
        try:
            async with self._nodes().upgrade(backend.node, backend.address, backend.port, target, offered) as answer:
                if answer.status != SWITCHING:
                    return await _refusal(answer)
                await send({"type": "http.response.start", "status": SWITCHING, "headers": answer.handed_on})
                try:
                    await copy_both_ways(upgrade.streams, answer.connection)
                finally:
                    upgrade.streams[1].close()
        except OSError as error:  # a TimeoutError is one too
            raise failure(500, "InternalError", f"Internal error occurred: error dialing backend: {error}") from None
        return None

    def _pod(self, call: Call) -> Pod:
        found = self._server.find(call)
        if found is None:
            raise not_found(PODS, call.name)
        pod: Pod = found.object
        return pod

    def _pod_backend(self, call: Call, request: Request) -> tuple[Pod, NodeEndpoint]:
        pod = self._pod(call)
        if call.subresource != "portforward":
            named_container(pod, request.parameter("container"))
        if not pod.spec or not pod.spec.node_name:
            raise bad_request(f"pod {pod.metadata.name} does not have a host assigned")
        return pod, self._backend(pod)

    def _backend(self, pod: Pod) -> NodeEndpoint:
        return agent_of(self._server.registry, pod.spec.node_name if pod.spec else "")

    def _url(self, scheme: str, backend: NodeEndpoint, path: str, query: Any) -> str:
        return self._nodes().url(scheme, backend.node, backend.address, backend.port, path, query)

    def _nodes(self) -> KubeletConnections:
        if self._connections is None:
            # The import of aiohttp takes 100 ms, and the first request to few servers is for logs.
            from cathedra.apiserver.http.proxying.connections import KubeletConnections

            self._connections = KubeletConnections(self._tls)
        return self._connections


@contextlib.asynccontextmanager
async def _until_gone(request: Request, answer: aiohttp.ClientResponse) -> AsyncIterator[None]:
    """Close the answer of a node when the client disconnects. Otherwise a followed log would never end."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        answer.close()

    watching = asyncio.create_task(watch(), name="log disconnect")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _refusal(answer: NodeAnswer) -> Response:
    """Return the refusal of a node; kubectl shows its text.

    Raises:
        StatusError: the refusal in this form; or 502, it is a redirect, which would make the client call any server
            that the node names.
    """
    if not 400 <= answer.status < 600:
        raise failure(502, "InternalError", f"the node answered {answer.status} to an upgrade, which is not permitted")
    text = (await answer.body()).decode(errors="replace").strip()
    if not text or ": " in text:
        # kubectl reads an answer as YAML: of "a: b" it would show nothing, while a Status is shown.
        raise refusal_of(answer.status, text)
    return Response(answer.status, text.encode(), b"text/plain; charset=utf-8")


def stream_path(pod: Pod, call: Call, request: Request) -> str:
    """Return the kubelet's path for exec, attach and port-forward."""
    if call.subresource == "portforward":
        return f"/portForward/{pod.metadata.namespace}/{pod.metadata.name}"
    container = named_container(pod, request.parameter("container"))
    return f"/{call.subresource}/{pod.metadata.namespace}/{pod.metadata.name}/{container}"


def stream_query(request: Request) -> list[tuple[str, str]]:
    """Return the parameters of exec and attach under the names of the kubelet."""
    query: list[tuple[str, str]] = [("command", word) for word in request.query.get("command", ())]
    query += [(ours, "1") for name, ours in _PARAMETERS.items() if request.flag(name)]
    query += [("port", port) for port in request.query.get("ports", ())]
    return query


def _names_of(pod: Pod) -> list[str]:
    spec: Any = pod.spec
    return [c.name for c in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)]


def named_container(pod: Pod, name: str) -> str:
    """Return the name of the container; for "" the only one, or the default of the pod.

    Raises:
        StatusError: 400, there is none such, or it has to be named.
    """
    spec: Any = pod.spec
    if name:
        if name not in _names_of(pod):
            raise bad_request(f"container {name} is not valid for pod {pod.metadata.name}")
        return name
    if len(spec.containers) == 1:
        only: str = spec.containers[0].name
        return only
    default = pod.metadata.annotations.get("kubectl.kubernetes.io/default-container", "")
    if default in _names_of(pod):
        return default
    names = " ".join(c.name for c in spec.containers)
    message = f"a container name must be specified for pod {pod.metadata.name}, choose one of: [{names}]"
    if spec.init_containers:
        message += f" or one of the init containers: [{' '.join(c.name for c in spec.init_containers)}]"
    raise bad_request(message)


def check_log_options(request: Request, pod: Pod) -> None:
    """Refuse invalid options of a log.

    Raises:
        StatusError: 422, numbers are out of range.
    """
    errors = ErrorList()
    for name, least in (("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)):
        value = request.number(name)
        if value is not None and value < least:
            comparison = "greater than or equal to 0" if least == 0 else "greater than 0"
            errors.invalid(name, value, f"must be {comparison}")
    if errors:
        raise invalid("", "PodLogOptions", pod.metadata.name, errors)


def check_started(pod: Pod, container: str, *, previous: bool) -> None:
    """Refuse the log of a container that has not run, or has not run before.

    Raises:
        StatusError: 400, there is no log yet.
    """
    statuses = (
        *pod.status.container_statuses,
        *pod.status.init_container_statuses,
        *pod.status.ephemeral_container_statuses,
    )
    for status in statuses:
        if status.name != container:
            continue
        waiting = status.state.waiting if status.state else None
        terminated_before = status.last_state is not None and status.last_state.terminated is not None
        if previous and not terminated_before:
            raise bad_request(f'previous terminated container "{container}" in pod "{pod.metadata.name}" not found')
        if waiting is not None and not terminated_before:
            why = waiting.message or waiting.reason
            raise bad_request(f'container "{container}" in pod "{pod.metadata.name}" is waiting to start: {why}')
