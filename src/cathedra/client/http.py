"""The transport to any Kubernetes API server: JSON over HTTP(S), watches as streams of lines.

Refusals become `StatusError`, lost connections `ConnectionError`. A request is retried a few times if the server names
a time for that (``Retry-After``). Watches are not reconnected here: the informer does that. If the target names several
servers, one of them is used at a time (`cathedra.client.servers`).

aiohttp is imported when a transport is opened, because a part in the API server's process never needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar
from urllib.parse import quote, urlsplit

from cathedra import __version__
from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject
from cathedra.api.nesting import WRAPPED_DEPTH, check_nesting
from cathedra.api.scheme import GroupVersionKind, UnknownKind, kind_of, type_of
from cathedra.api.status import StatusError
from cathedra.api.struct import KubeStruct, decoder_of, encode, replace
from cathedra.api.undecodable import FAULTS, Undecodable
from cathedra.client.answers import (
    ReceivedObjects,
    event_of,
    list_item_by_item,
    list_type,
    may_be_repeated,
    meta_of,
    refusal_of,
)
from cathedra.client.denials import Denials
from cathedra.client.kubeconfig import KubeconfigError, Target
from cathedra.client.requestmetrics import NO_ANSWER, RequestMetrics
from cathedra.client.servers import ANSWER_SECONDS, NotSent, ServerLeft, Servers
from cathedra.client.transport import (
    APICall,
    ListOptions,
    Page,
    PatchType,
    ResourceRef,
    Verb,
    WatchEvent,
    WriteOptions,
)
from cathedra.files.private import files_in_memory

if TYPE_CHECKING:
    import aiohttp

__all__ = ["LONGEST_PAUSE", "RETRIES", "HTTPTransport", "close_session", "request_line", "tls_context"]

T = TypeVar("T", bound=KubeObject)

RETRIES: Final = 10
"""Limit of the retries of a request."""
LONGEST_PAUSE: Final = 10.0
"""Limit of the seconds before a retry."""
SILENT_SECONDS: Final = 300.0
"""Time without events or bookmarks after which a watch counts as lost: its server may hang behind a load balancer,
which keeps the connection open. Kubernetes' clients begin every watch anew after five to ten minutes."""
_CONNECT_SECONDS: Final = 30.0
_PARALLEL_CONNECTIONS: Final = 200
_METHODS: Final[Mapping[Verb, str]] = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


class _Outcome:
    """The status code of a request, once there is an answer."""

    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code = NO_ANSWER


async def close_session(session: aiohttp.ClientSession) -> None:
    """Close an HTTP client and its connections."""
    # A malformed answer in two pieces closes asyncio's TLS transport twice, which takes its protocol away. Until the
    # loop reports the loss, aiohttp has the connection in its pool and fails to read `get_extra_info` of it. By then
    # its pool is empty; that connection ends by itself, and other idle ones when their server closes them.
    with contextlib.suppress(AttributeError):
        await session.close()


class HTTPTransport:
    """The Kubernetes API of a cluster, as one user. Use it as an asynchronous context manager, or close it."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        target: Target,
        denials: Denials | None = None,
        servers: Servers | None = None,
    ) -> None:
        import aiohttp  # loaded by now, as in `open`

        self._session = session
        self._watching = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=SILENT_SECONDS)
        self.servers = servers or Servers(target.servers)
        """The servers of the cluster; a session beside this transport uses the same one."""
        self.denials = denials
        """The log of missing rights; None if refusals are not logged."""
        secure = target.server.startswith("https:")
        self._tokens: TokenSource | None = None
        if secure and target.token_file:
            self._tokens = TokenFile(target.token_file, target.token)
        self._tls_name = target.tls_server_name or None
        # Credentials are sent over TLS only. On a plain connection anyone on the way could read them.
        self._token = target.token if secure and target.token_file is None else ""
        self._tls: ssl.SSLContext | None = None
        self._received = ReceivedObjects()
        self._requests: RequestMetrics | None = None
        self._following: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        target: Target,
        *,
        user_agent: str = "cathedra",
        denials: Denials | None = None,
        requests: RequestMetrics | None = None,
    ) -> Self:
        """Return a transport to ``target``; nothing is sent yet.

        Refusals for want of a right go to ``denials``, and requests are counted by ``requests``.

        Raises:
            KubeconfigError: the server is a unix socket, over which not every request can be sent.
            ssl.SSLError: certificates or keys cannot be read.
        """
        if target.socket is not None:
            raise KubeconfigError(
                f"{target.server} is for cathedra scheduler and cathedra controller-manager alone; for anything else "
                "name the kubeconfig beside it, whose server is a URL"
            )
        # A cluster in one process never opens this transport, and aiohttp is a fifth of its start.
        import aiohttp

        from cathedra.client.sendonce import send_once  # as above: it needs aiohttp

        headers = {"Accept": "application/json", "User-Agent": f"{user_agent}/{__version__}"}
        tls = tls_context(target) if target.server.startswith("https:") else None
        if tls is not None and target.token and target.token_file is None:
            headers["Authorization"] = f"Bearer {target.token}"
        auth = aiohttp.BasicAuth(target.username, target.password) if tls is not None and target.username else None
        connector = aiohttp.TCPConnector(ssl=tls if tls is not None else True, limit=_PARALLEL_CONNECTIONS)
        session = aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            auth=auth,
            middlewares=(send_once,),
            # Watches stay silent for minutes; a request that needs a deadline sets its own around the call.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        )
        made = cls(session, target, denials)
        made._tls = tls
        made._requests = requests
        if made.servers.several:
            made._following = asyncio.create_task(made._follow_servers(), name="servers")
        return made

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context of new connections; None if they are not encrypted."""
        return self._tls

    async def authorization(self) -> str:
        """Return the current Authorization header; empty if the client certificate authenticates the user."""
        token = self._token if self._tokens is None else await self._tokens.current()
        return f"Bearer {token}" if token else ""

    def show_certificate(self, pair: Path) -> None:
        """Use another client certificate from the next connection on; ``pair`` holds it with its key (PEM).

        Raises:
            ssl.SSLError: it holds no certificate with its key.
        """
        if self._tls is not None:
            self._tls.load_cert_chain(pair)

    def with_tokens(self, tokens: TokenSource, target: Target) -> HTTPTransport:
        """Return a transport of another user on the same connections, which are closed with this transport."""
        other = HTTPTransport(self._session, target, self.denials, self.servers)
        other._tokens = tokens
        # Shared, so that both decode an unchanged object once.
        other._received = self._received
        other._requests = self._requests
        return other

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections to the API server."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await close_session(self._session)

    async def call(self, call: APICall) -> Any:
        """Send a call as one HTTP request."""
        body = call.body
        content_type = "application/json"
        method, path, query = request_line(call)
        data: bytes | None = None
        if call.patch_type is not None:
            content_type = call.patch_type.value
            data = encode(body)
        elif body is not None:
            data = _body(body)
        answer = await self._request(
            method, path, query=query, body=data, content_type=content_type, probe=call.selection.probe
        )
        return self._result(call, answer)

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes; an ERROR event ends the stream as a `StatusError`."""
        async with self.servers.using() as server, self.watch_at(server, call) as events:
            yield events

    def watch_at(self, server: str, call: APICall) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes from a server, which the caller is using (`Servers.using`)."""
        _, path, query = request_line(call)
        return self._stream(call.ref, server, path, query)

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """GET any path of the server and return the body."""
        return await self._request("GET", path, query=query)

    async def read_log(self, namespace: str, pod: str, container: str = "") -> str:
        """Return the log of a container; its name may be omitted if the pod has only one."""
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/log"
        return (await self._request("GET", path, query={"container": container} if container else None)).decode()

    async def _follow_servers(self) -> None:
        """Probe the server in use, on connections of their own: those of requests may all be waiting."""
        import aiohttp  # loaded by now, as in `open`

        connector = aiohttp.TCPConnector(ssl=self._tls if self._tls is not None else True)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def probe(server: str) -> bool:
                try:
                    async with (
                        asyncio.timeout(ANSWER_SECONDS),
                        session.get(server + "/readyz", server_hostname=self._tls_name) as response,
                    ):
                        await response.read()
                except (aiohttp.ClientError, OSError):
                    return False
                # A refusal is an answer: not every cluster lets all users read this path.
                return response.status < HTTPStatus.INTERNAL_SERVER_ERROR

            await self.servers.follow(probe)

    def _result(self, call: APICall, body: bytes) -> Any:
        kind = call.ref.type
        match call.verb:
            case "list":
                return _page(kind, body)
            case "deletecollection":
                return None
            case "delete":
                # Kubernetes returns a Status for the last state of some kinds, and the object for others.
                return None if meta_of(body).kind == "Status" else self._received.read(kind, body)
            case "create":
                return self._posted(type(call.body) if call.subresource else kind, body)
        return self._received.read(kind, body)

    def _posted(self, kind: type[KubeStruct], body: bytes) -> KubeStruct:
        """Decode the result of a POST: the kind that it names (a Status, a review), or else ``kind``."""
        meta = meta_of(body)
        with contextlib.suppress(UnknownKind):
            kind = type_of(GroupVersionKind.parse(meta.api_version, meta.kind))
        return self._received.read(kind, body)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        probe: bool = False,
    ) -> bytes:
        attempt = 0
        renewed = False
        while True:
            headers = await self._credentials()
            if body is not None:
                headers["Content-Type"] = content_type
            server = self.servers.current
            try:
                response, answer = await self._exchange(method, path, query, body, headers)
            except ServerLeft:
                if method != "GET":
                    raise
                continue
            except NotSent:
                if not await self.servers.await_other(server):
                    raise
                continue
            if response.status < HTTPStatus.BAD_REQUEST:
                return answer
            # A token file may have been renewed since it was read: once per request, try with the new token.
            if response.status == HTTPStatus.UNAUTHORIZED and not renewed and await self._renewed(headers):
                renewed = True
                continue
            pause = response.headers.get("Retry-After", "")
            attempt += 1
            # Only with Retry-After, as client-go does: without it nothing shows that a repeated request is
            # welcome.
            repeatable = may_be_repeated(response.status, is_read=method == "GET")
            if attempt > RETRIES or not pause.isdigit() or not repeatable:
                raise refusal_of(response.status, answer) if probe else self._refusal(response.status, answer)
            await asyncio.sleep(min(float(pause), LONGEST_PAUSE))

    async def _exchange(
        self, method: str, path: str, query: Mapping[str, str] | None, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Send one request to the server in use, and return its response with the body.

        Raises:
            NotSent: no connection could be made.
            ConnectionError: the connection was lost; `ServerLeft`, if the server was left for another one.
        """
        with self._observed(method) as outcome, _translated():
            async with (
                self.servers.using() as server,
                self._session.request(
                    method,
                    server + path,
                    params=query,
                    data=body,
                    headers=headers,
                    server_hostname=self._tls_name,
                ) as response,
            ):
                outcome.code = str(response.status)
                return response, await response.read()

    @asynccontextmanager
    async def _stream(
        self, ref: ResourceRef[T], server: str, path: str, query: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        headers = await self._credentials()
        with _translated():
            # The duration of a watch is no latency, so only the answer is counted, as in client-go.
            async with self._session.get(
                server + path, params=query, headers=headers, server_hostname=self._tls_name, timeout=self._watching
            ) as response:
                if self._requests is not None:
                    self._requests.answered(str(response.status), "GET", urlsplit(server).netloc)
                if response.status == HTTPStatus.UNAUTHORIZED:
                    await self._renewed(headers)  # for the next attempt, which is the informer's
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise self._refusal(response.status, await response.read())
                yield _events(ref, response.content, self._received)

    @contextlib.contextmanager
    def _observed(self, method: str) -> Iterator[_Outcome]:
        """Count one request, and measure it until its answer is complete."""
        outcome = _Outcome()
        if self._requests is None:
            yield outcome
            return
        began, host = self._requests.monotonic(), urlsplit(self.servers.current).netloc
        try:
            yield outcome
        finally:
            self._requests.answered(outcome.code, method, host)
            self._requests.took(method, host, self._requests.monotonic() - began)

    def _refusal(self, code: int, body: bytes) -> StatusError:
        error = refusal_of(code, body)
        if self.denials is not None:
            self.denials.note(error)
        return error

    async def _credentials(self) -> dict[str, str]:
        """Return the headers that change over time; the others are those of the aiohttp session."""
        if self._tokens is None:
            return {}
        return {"Authorization": f"Bearer {await self._tokens.current()}"}

    async def _renewed(self, headers: Mapping[str, str]) -> bool:
        """Return True if there is a newer token than the rejected one in ``headers``."""
        shown = headers.get("Authorization", "").removeprefix("Bearer ")
        return self._tokens is not None and await self._tokens.replaced(shown)


async def _events(
    ref: ResourceRef[T], content: aiohttp.StreamReader, received: ReceivedObjects
) -> AsyncIterator[WatchEvent[T]]:
    async for line in _lines(content):
        yield event_of(ref, line, received)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield complete lines of any length. A last line without its end is dropped: the connection was lost within it."""
    rest = bytearray()
    with _translated():
        async for chunk in content.iter_any():
            rest += chunk
            # A long event arrives in many chunks. Splitting each time would copy what has arrived before again and
            # again.
            if b"\n" not in chunk:
                continue
            *complete, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in complete:
                if line.strip():
                    yield line


class _translated:  # noqa: N801 - it reads as a word after «with»
    """A context that raises aiohttp's errors as `ConnectionError`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, ConnectionError):
            return
        # Loaded by now: this only names it without importing it with the module.
        import aiohttp

        # One exception for all transports: callers retry a ConnectionError, whatever library raised it.
        if isinstance(error, aiohttp.ClientConnectorError):
            raise NotSent(str(error)) from error
        if isinstance(error, (aiohttp.ClientError, OSError)):
            raise ConnectionError(str(error) or type(error).__name__) from error


def request_line(call: APICall) -> tuple[str, str, dict[str, str]]:
    """Return the method, path and query of a call over HTTP."""
    query: dict[str, str] = {}
    if call.verb in ("list", "watch", "deletecollection"):
        query = _list_query(call.selection)
    elif call.verb in ("create", "update", "patch"):
        query = _write_query(call.options)
    if call.verb == "watch":
        query["watch"] = "true"
        if call.selection.bookmarks:
            query["allowWatchBookmarks"] = "true"
    elif call.patch_type is PatchType.APPLY:
        query["force"] = "true" if call.options.force else "false"
    return _METHODS[call.verb], _path(call), query


def _path(call: APICall) -> str:
    ref = call.ref
    root = f"/apis/{ref.group}/{ref.version}" if ref.group else f"/api/{ref.version}"
    inside = f"/namespaces/{quote(call.namespace, safe='')}" if call.namespace and ref.namespaced else ""
    path = f"{root}{inside}/{ref.resource}"
    if call.name:
        path += f"/{quote(call.name, safe='')}"
    return f"{path}/{call.subresource}" if call.subresource else path


def _page(kind: type[T], body: bytes) -> Page[T]:
    undecodable: tuple[Undecodable, ...] = ()
    try:
        check_nesting(body, WRAPPED_DEPTH)
        answer = decoder_of(list_type(kind)).decode(body)
        metadata, items = answer.metadata, answer.items or ()
    except FAULTS:
        # One object that cannot be decoded fails the whole list: decode its items one by one.
        metadata, items, undecodable = list_item_by_item(kind, body)
    return Page(
        tuple(replace(item, kind="", api_version="") for item in items),
        metadata.resource_version,
        metadata.continue_,
        metadata.remaining_item_count,
        undecodable,
    )


def _list_query(options: ListOptions) -> dict[str, str]:
    query = {
        "labelSelector": options.label_selector,
        "fieldSelector": options.field_selector,
        "limit": str(options.limit) if options.limit else "",
        "continue": options.continue_,
        "resourceVersion": options.resource_version,
        "resourceVersionMatch": options.resource_version_match,
    }
    # Empty parameters are left out. Some proxies and servers treat "limit=" as an error.
    return {name: value for name, value in query.items() if value}


def _write_query(options: WriteOptions) -> dict[str, str]:
    query = {
        "dryRun": "All" if options.dry_run else "",
        "fieldManager": options.field_manager,
        "fieldValidation": options.field_validation,
    }
    return {name: value for name, value in query.items() if value} | dict(options.query)


def _body(obj: KubeStruct) -> bytes:
    if isinstance(obj, DeleteOptions):
        return encode(replace(obj, kind="DeleteOptions", api_version="v1"))
    gvk = kind_of(type(obj))
    return encode(replace(obj, kind=gvk.kind, api_version=gvk.api_version))


def tls_context(target: Target) -> ssl.SSLContext:
    """Return the TLS context of a target: its authorities, and the client certificate.

    Raises:
        ssl.SSLError: certificates or keys cannot be read.
    """
    authority = target.certificate_authority.decode() or None
    context = ssl.create_default_context(cadata=authority)
    if target.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if target.client_certificate:
        with files_in_memory(target.client_certificate + b"\n" + target.client_key) as (pem,):
            context.load_cert_chain(pem)
    return context


PERIOD: Final = 60.0
"""Seconds for which a token is used unread."""

_LOG = logging.getLogger(__name__)


class TokenSource(Protocol):
    """Source of the bearer token of requests."""

    async def current(self) -> str:
        """Return the token to send now."""

    async def replaced(self, refused: str) -> bool:
        """Return True if there is another token than the one that was just refused."""


class TokenFile:
    """The bearer token in ``path``; ``token`` is used until the file can be read.

    A kubelet renews the tokens of pods' service accounts when four fifths of their life are over. So the file is read
    again after a minute, and at once when the API server refuses the token, as client-go does.

    It reads the clock of the running event loop.
    """

    def __init__(self, path: Path, token: str = "") -> None:
        self._path = path
        self._token = token
        self._good_until = 0.0

    async def current(self) -> str:
        """Return the token, read at most `PERIOD` ago. If the file cannot be read now, return the last one."""
        if asyncio.get_running_loop().time() >= self._good_until:
            self._read()
        return self._token

    async def replaced(self, refused: str) -> bool:
        """Read the file now: whether there is another token in it than the one that was just refused."""
        self._read()
        return self._token != refused

    def _read(self) -> None:
        self._good_until = asyncio.get_running_loop().time() + PERIOD
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            _LOG.warning("unable to read token file %s, the last token is used: %s", self._path, error)
            return
        if token:
            self._token = token
