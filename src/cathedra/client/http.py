"""The transport to any Kubernetes API server: JSON over HTTP(S), watches as streams of lines.

Made from a kubeconfig's `Target`. aiohttp is imported when a transport is opened, not before: a part in the API
server's process never pays for it. Refusals become `StatusError`, lost connections `ConnectionError`; an answer that
asks to come back later (429, or 503 with ``Retry-After``) is obeyed a few times. Reconnecting a watch is the informer's
business.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import quote

import msgspec

from cathedra import __version__
from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject, ListMeta, ObjectMeta, Status
from cathedra.api.nesting import WRAPPED_DEPTH, NestingError, check_nesting
from cathedra.api.parts import reader_of
from cathedra.api.scheme import GroupVersionKind, UnknownKind, kind_of, type_of
from cathedra.api.status import StatusError
from cathedra.api.struct import KubeStruct, decode, decoder_of, encode, replace
from cathedra.api.undecodable import (
    FAULTS,
    NotAnObject,
    Undecodable,
    UndecodableObject,
    identify,
    is_cut,
    readable,
)
from cathedra.client.credentials import TokenFile, TokenSource
from cathedra.client.denials import Denials
from cathedra.client.kubeconfig import KubeconfigError, Target
from cathedra.client.transport import (
    EventType,
    ListOptions,
    MalformedAnswer,
    Page,
    PatchType,
    ResourceRef,
    WatchEvent,
    WriteOptions,
    undecodable_event,
)

if TYPE_CHECKING:
    import aiohttp

__all__ = ["LONGEST_PAUSE", "RETRIES", "HTTPTransport", "tls_context"]

S = TypeVar("S", bound=KubeStruct)
T = TypeVar("T", bound=KubeObject)

_LOG: Final = logging.getLogger(__name__)
RETRIES: Final = 10
"""How often a request is sent again to a server that asks for it."""
LONGEST_PAUSE: Final = 10.0
"""Seconds before that."""
_PARALLEL_CONNECTIONS: Final = 200
_KEPT: Final = 256
"""Objects that are known by their bytes at a time: an answer and its event come soon after each other."""
_LARGEST_KEPT: Final = 16 * 1024
"""Bytes up to which they are."""


class _Envelope(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class _TypeMeta(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    kind: str = ""
    api_version: str = ""


_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)
_CHANGES: Final = {one.value: one for one in (EventType.ADDED, EventType.MODIFIED, EventType.DELETED)}
_SHOWN: Final = 200
"""Bytes of a malformed answer that its error quotes."""


class _BookmarkOnly(KubeStruct, frozen=True):
    """The one thing a bookmark says."""

    metadata: ListMeta = ListMeta()


class _ReceivedObjects:
    """The objects that came lately, by the bytes that they came as: an answer to a write and its event are one."""

    def __init__(self) -> None:
        self._known: dict[tuple[type, bytes], Any] = {}

    def read(self, kind: type[S], body: bytes) -> S:
        """The object of type ``kind`` that ``body`` spells.

        Raises:
            UndecodableObject: it spells another one, or one that is nested too deeply.
            MalformedAnswer: it spells none.
        """
        key = kind, body
        found: S | None = self._known.get(key)
        if found is None:
            try:
                found = _object(kind, body)
            except FAULTS as error:
                raise UndecodableObject(_identified(kind, body, error)) from error
            if len(body) <= _LARGEST_KEPT:
                if len(self._known) >= _KEPT:
                    del self._known[next(iter(self._known))]
                self._known[key] = found
        return found


class HTTPTransport:
    """The Kubernetes API of one server, as one user. Use it as an asynchronous context manager, or close it."""

    def __init__(self, session: aiohttp.ClientSession, target: Target, denials: Denials | None = None) -> None:
        self._session = session
        self.denials = denials
        """Where refusals for want of a right are reported."""
        secure = target.server.startswith("https:")
        self._tokens: TokenSource | None = None
        if secure and target.token_file:
            self._tokens = TokenFile(target.token_file, target.token)
        self._server = target.server
        self._tls_name = target.tls_server_name or None
        self._token = target.token if secure and target.token_file is None else ""
        self._tls: ssl.SSLContext | None = None
        self._received = _ReceivedObjects()

    @classmethod
    async def open(cls, target: Target, *, user_agent: str = "cathedra", denials: Denials | None = None) -> Self:
        """A transport to ``target``; nothing is sent yet. Refusals for want of a right are reported to ``denials``.

        Raises:
            KubeconfigError: the server is a unix socket, over which not all can be asked.
            ssl.SSLError: certificates or keys cannot be read.
        """
        if target.socket is not None:
            raise KubeconfigError(
                f"{target.server} is for cathedra scheduler and cathedra controller-manager alone; for anything else "
                "name the kubeconfig beside it, whose server is a URL"
            )
        # A cluster in one process never opens this transport, and aiohttp is a fifth of its start.
        import aiohttp

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
            # Watches stay silent for minutes; a request that needs a deadline sets its own around the call.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
        )
        made = cls(session, target, denials)
        made._tls = tls
        return made

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What new connections are made with; None: they are not encrypted."""
        return self._tls

    async def authorization(self) -> str:
        """The header that names the user now, "" where the certificate does."""
        token = self._token if self._tokens is None else await self._tokens.current()
        return f"Bearer {token}" if token else ""

    def show_certificate(self, pair: Path) -> None:
        """Show another certificate from the next connection on; ``pair`` holds it with its key (PEM).

        Raises:
            ssl.SSLError: it holds no certificate with its key.
        """
        if self._tls is not None:
            self._tls.load_cert_chain(pair)

    def with_tokens(self, tokens: TokenSource, target: Target) -> HTTPTransport:
        """The same connections, as the user whose tokens these are; closed with this transport."""
        other = HTTPTransport(self._session, target, self.denials)
        other._tokens = tokens
        other._received = self._received
        return other

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of connections."""
        await self._session.close()

    async def get(self, ref: ResourceRef[T], namespace: str, name: str, *, subresource: str = "") -> T:
        """GET one object."""
        return self._received.read(ref.type, await self._request("GET", _path(ref, namespace, name, subresource)))

    async def list(self, ref: ResourceRef[T], namespace: str, options: ListOptions) -> Page[T]:
        """GET a collection."""
        body = await self._request("GET", _path(ref, namespace), query=_list_query(options), probe=options.probe)
        undecodable: tuple[Undecodable, ...] = ()
        try:
            check_nesting(body, WRAPPED_DEPTH)
            answer = decoder_of(_list_type(ref.type)).decode(body)
            metadata, items = answer.metadata, answer.items or ()
        except FAULTS:
            metadata, items, undecodable = _item_by_item(ref.type, body)
        return Page(
            tuple(replace(item, kind="", api_version="") for item in items),
            metadata.resource_version,
            metadata.continue_,
            metadata.remaining_item_count,
            undecodable,
        )

    def watch(
        self, ref: ResourceRef[T], namespace: str, options: ListOptions, *, bookmarks: bool = True
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Stream changes; an ERROR event ends the stream as a `StatusError`."""
        query = _list_query(options) | {"watch": "true"}
        if bookmarks:
            query["allowWatchBookmarks"] = "true"
        return self._stream(ref, _path(ref, namespace), query)

    async def create(
        self,
        ref: ResourceRef[T],
        namespace: str,
        obj: KubeObject,
        options: WriteOptions,
        *,
        name: str = "",
        subresource: str = "",
    ) -> Any:
        """POST an object, or something on a sub-resource."""
        path = _path(ref, namespace, name, subresource)
        answer = await self._request("POST", path, query=_write_query(options), body=_body(obj))
        return self._answer(ref.type if not subresource else type(obj), answer)

    async def update(
        self, ref: ResourceRef[T], namespace: str, obj: T, options: WriteOptions, *, subresource: str = ""
    ) -> T:
        """PUT an object."""
        name = obj.metadata.name
        path = _path(ref, namespace, name, subresource)
        return self._received.read(
            ref.type, await self._request("PUT", path, query=_write_query(options), body=_body(obj))
        )

    async def patch(
        self,
        ref: ResourceRef[T],
        namespace: str,
        name: str,
        patch_type: PatchType,
        body: Any,
        options: WriteOptions,
        *,
        subresource: str = "",
    ) -> T:
        """PATCH an object."""
        path = _path(ref, namespace, name, subresource)
        query = _write_query(options)
        if patch_type is PatchType.APPLY:
            query["force"] = "true" if options.force else "false"
        answer = await self._request("PATCH", path, query=query, body=encode(body), content_type=patch_type.value)
        return self._received.read(ref.type, answer)

    async def delete(self, ref: ResourceRef[T], namespace: str, name: str, options: DeleteOptions) -> T | None:
        """DELETE an object; None when the server answers with a mere Status."""
        answer = await self._request("DELETE", _path(ref, namespace, name), body=_body(options))
        return None if _meta(answer).kind == "Status" else self._received.read(ref.type, answer)

    async def delete_collection(
        self, ref: ResourceRef[T], namespace: str, list_options: ListOptions, options: DeleteOptions
    ) -> None:
        """DELETE a collection."""
        query = _list_query(list_options)
        await self._request("DELETE", _path(ref, namespace), query=query, body=_body(options))

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """GET any path of the server, and the bytes it answers with."""
        return await self._request("GET", path, query=query)

    async def read_log(self, namespace: str, pod: str, container: str = "") -> str:
        """What a container has written so far; its name may be left out where a pod has only one."""
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/log"
        return (await self._request("GET", path, query={"container": container} if container else None)).decode()

    def _answer(self, kind: type[KubeStruct], body: bytes) -> KubeStruct:
        """What a POST answers: the kind that was sent, or whatever the server says it is (a Status, a review)."""
        meta = _meta(body)
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
        asked_again = False
        while True:
            headers = await self._credentials()
            if body is not None:
                headers["Content-Type"] = content_type
            with _translated():
                async with self._session.request(
                    method,
                    self._server + path,
                    params=query,
                    data=body,
                    headers=headers,
                    server_hostname=self._tls_name,
                ) as response:
                    answer = await response.read()
            if response.status < HTTPStatus.BAD_REQUEST:
                return answer
            if response.status == HTTPStatus.UNAUTHORIZED and not asked_again and await self._renewed(headers):
                asked_again = True
                continue
            pause = response.headers.get("Retry-After", "")
            attempt += 1
            if attempt > RETRIES or not pause.isdigit() or response.status not in (429, 500, 503, 504):
                raise _refusal(response.status, answer) if probe else self._refusal(response.status, answer)
            await asyncio.sleep(min(float(pause), LONGEST_PAUSE))

    @asynccontextmanager
    async def _stream(
        self, ref: ResourceRef[T], path: str, query: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        headers = await self._credentials()
        with _translated():
            async with self._session.get(
                self._server + path, params=query, headers=headers, server_hostname=self._tls_name
            ) as response:
                if response.status == HTTPStatus.UNAUTHORIZED:
                    await self._renewed(headers)  # for the next attempt, which is the informer's
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise self._refusal(response.status, await response.read())
                yield _events(ref, response.content, self._received)

    def _refusal(self, code: int, body: bytes) -> StatusError:
        error = _refusal(code, body)
        if self.denials is not None:
            self.denials.note(error)
        return error

    async def _credentials(self) -> dict[str, str]:
        """The headers of this moment; what never changes is the session's."""
        if self._tokens is None:
            return {}
        return {"Authorization": f"Bearer {await self._tokens.current()}"}

    async def _renewed(self, headers: Mapping[str, str]) -> bool:
        """Whether there is another token than the one that ``headers`` showed in vain."""
        shown = headers.get("Authorization", "").removeprefix("Bearer ")
        return self._tokens is not None and await self._tokens.replaced(shown)


async def _events(
    ref: ResourceRef[T], content: aiohttp.StreamReader, received: _ReceivedObjects
) -> AsyncIterator[WatchEvent[T]]:
    async for line in _lines(content):
        frame, is_whole = _frame(line)
        body = bytes(frame.object)
        if frame.type == "ERROR":
            raise StatusError(_status_of(body))
        if frame.type == "BOOKMARK":
            # A bookmark carries nothing but its resource version; it need not be a valid object of the kind.
            yield _bookmark(ref.type, body)
            continue
        change = _CHANGES.get(frame.type)
        if change is None:
            # As client-go, which goes on with the next event: a newer server may report more than we know.
            _LOG.warning("%s: a watch event of the unknown type %.40r is ignored", ref.resource, frame.type)
            yield _bookmark(ref.type, body)
            continue
        if not is_whole:
            yield undecodable_event(ref.type, change, _identified(ref.type, body, NestingError()))
            continue
        try:
            obj = received.read(ref.type, body)
        except UndecodableObject as error:
            yield undecodable_event(ref.type, change, error.what)
            continue
        yield WatchEvent(change, obj)


def _frame(line: bytes) -> tuple[_Envelope, bool]:
    """One line of a watch; False: it is without what was nested too deeply.

    Raises:
        MalformedAnswer: it is no event with an object.
    """
    try:
        check_nesting(line, WRAPPED_DEPTH)
        return _ENVELOPE.decode(line), True
    except FAULTS:
        line = readable(line)
    try:
        return _ENVELOPE.decode(line), not is_cut(line)
    except FAULTS as error:
        raise MalformedAnswer(f"a line of a watch is no event: {error}: {line[:_SHOWN]!r}") from error


def _bookmark(kind: type[T], body: bytes) -> WatchEvent[T]:
    try:
        version = decode(_BookmarkOnly, body).metadata.resource_version
    except FAULTS:
        version = ""  # it says nothing: the watch is where it was
    return WatchEvent(EventType.BOOKMARK, kind(metadata=ObjectMeta(resource_version=version)))


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length; a rest without line end is dropped, as the connection died in the middle of it."""
    rest = bytearray()
    with _translated():
        async for chunk in content.iter_any():
            rest += chunk
            if b"\n" not in chunk:
                continue
            *complete, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in complete:
                if line.strip():
                    yield line


class _translated:  # noqa: N801 - it reads as a word after «with»
    """Turns aiohttp's failures into `ConnectionError`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, ConnectionError):
            return
        # Loaded by now: this only names it without importing it with the module.
        import aiohttp

        if isinstance(error, (aiohttp.ClientError, OSError)):
            raise ConnectionError(str(error) or type(error).__name__) from error


def _path(ref: ResourceRef[KubeObject], namespace: str, name: str = "", subresource: str = "") -> str:
    root = f"/apis/{ref.group}/{ref.version}" if ref.group else f"/api/{ref.version}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace and ref.namespaced else ""
    path = f"{root}{inside}/{ref.resource}"
    if name:
        path += f"/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def _list_query(options: ListOptions) -> dict[str, str]:
    query = {
        "labelSelector": options.label_selector,
        "fieldSelector": options.field_selector,
        "limit": str(options.limit) if options.limit else "",
        "continue": options.continue_,
        "resourceVersion": options.resource_version,
        "resourceVersionMatch": options.resource_version_match,
    }
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


def _object(kind: type[S], body: bytes) -> S:
    check_nesting(body, WRAPPED_DEPTH)
    try:
        return replace(reader_of(kind)(body), kind="", api_version="")
    except msgspec.ValidationError:
        raise
    except FAULTS:
        text = readable(body)
        if text == body:
            raise
        return replace(reader_of(kind)(text), kind="", api_version="")


@cache
def _list_type(kind: type[T]) -> Any:
    """A list of ``kind``; item structs of the built-in lists are the same, but custom kinds have no list struct."""
    return msgspec.defstruct(
        f"{kind.__name__}List",
        [("metadata", ListMeta, ListMeta()), ("items", tuple[kind, ...] | None, ())],  # type: ignore[valid-type]  # made at run time
        frozen=True,
    )


class _RawList(msgspec.Struct, frozen=True):
    """A list of which nothing is decoded yet."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: list[msgspec.Raw] | None = None


_RAW_LIST: Final = msgspec.json.Decoder(_RawList)


def _item_by_item(kind: type[T], body: bytes) -> tuple[ListMeta, list[T], tuple[Undecodable, ...]]:
    """A list that cannot be decoded as a whole: its metadata, the items that can be decoded, and the others.

    Nulls where Go has nil lists come this way too, so that only the items that have some are mended.

    Raises:
        MalformedAnswer: it is no list of objects.
    """
    body = readable(body)
    try:
        answer = _RAW_LIST.decode(body)
        metadata = decode(ListMeta, bytes(answer.metadata))
    except FAULTS as error:
        raise MalformedAnswer(f"no list of objects: {error}: {body[:_SHOWN]!r}") from error
    items: list[T] = []
    undecodable: list[Undecodable] = []
    for raw in answer.items or ():
        item = bytes(raw)
        try:
            if is_cut(item):
                raise NestingError
            items.append(_object(kind, item))
        except FAULTS as error:
            try:
                undecodable.append(identify(kind, item, error))
            except NotAnObject as fault:
                _LOG.error("%s: an item of a list is ignored: %s", kind.__name__, fault)
    return metadata, items, tuple(undecodable)


def _identified(kind: type[KubeStruct], body: bytes, error: Exception) -> Undecodable:
    """Raises:
    MalformedAnswer: the bytes are no object.
    """
    try:
        return identify(kind, body, error)
    except NotAnObject as fault:
        raise MalformedAnswer(f"{kind.__name__}: {fault}: {body[:_SHOWN]!r}") from error


def _meta(body: bytes) -> _TypeMeta:
    """Kind and version of an answer, where it says them."""
    try:
        return decode(_TypeMeta, body)
    except FAULTS:
        return _TypeMeta()  # what reads the whole answer says what is wrong with it


def _status_of(body: bytes) -> Status:
    """Raises:
    MalformedAnswer: the bytes are no Status.
    """
    try:
        return decode(Status, body)
    except FAULTS as error:
        raise MalformedAnswer(f"a watch ends with an error that is no Status: {body[:_SHOWN]!r}") from error


def _refusal(code: int, body: bytes) -> StatusError:
    try:
        status = decode(Status, body)
    except FAULTS:
        status = Status()
    if status.status != "Failure":
        phrase = HTTPStatus(code).phrase if code in HTTPStatus._value2member_map_ else "Unknown"
        text = body[:1000].decode("utf-8", "replace").strip() or phrase
        status = Status(status="Failure", code=code, reason=_REASONS.get(code, ""), message=text)
    return StatusError(status)


_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Gone",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def tls_context(target: Target) -> ssl.SSLContext:
    """How to trust the server and what to show it.

    Raises:
        ssl.SSLError: certificates or keys cannot be read.
    """
    authority = target.certificate_authority.decode() or None
    context = ssl.create_default_context(cadata=authority)
    if target.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if target.client_certificate:
        # The standard library reads keys from files only.
        with tempfile.NamedTemporaryFile(prefix="cathedra-") as pem:
            pem.write(target.client_certificate + b"\n" + target.client_key)
            pem.flush()
            context.load_cert_chain(pem.name)
    return context
