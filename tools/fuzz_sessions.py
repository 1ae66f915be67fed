"""Fuzzing of sessions in the binary protocol: the decoder of frames, and the server behind it in virtual time.

An input of the layers behind the decoder is text, so that most mutations are still messages: a line for each message,
its fields separated by tabs. ``verb group version resource namespace name subresource options body`` is a request,
``attach agent`` a user, ``cancel number`` the end of a request by its line. Promised: each request is answered, without
an error of the server, or the connection is closed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.conformance.api_area import config_of, prepare

from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.server import APIServer
from cathedra.clock import LoopClock, VirtualTimeLoop
from cathedra.frames import MOST_ASKED, FrameError, MessageReader, write_frame
from cathedra.session.protocol import (
    PROTOCOL,
    Attach,
    Cancel,
    EndMessage,
    FailureMessage,
    FromClient,
    FromServer,
    ListMessage,
    ObjectMessage,
    PlainMessage,
    RequestMessage,
    RequestOptions,
    UseHTTP,
)
from cathedra.session.server import listen_on_socket
from tools.fuzz_http import ALLOWED, CLAIM, DEPLOYMENT, FIXTURES, POD, UPSTREAM, WIDGET, ServerFailure
from tools.fuzzing import Layer

__all__ = ["NAMES", "layer"]

TOKEN: Final = "token of the fuzzer"
ANSWER_SECONDS: Final = 120.0
"""Virtual seconds after which a request without an answer is a finding."""
WATCHED_SECONDS: Final = 2.0
"""Virtual seconds for which watches are open."""
FRESH_AFTER: Final = 3_000
"""Inputs after which a new server takes over."""
MOST_LINES: Final = 200


def _frames(data: bytes) -> None:
    """Decode frames that come in two pieces."""
    reader = MessageReader(FromClient, MOST_ASKED)
    half = len(data) // 2
    for piece in (data[:half], data[half:]):
        for _ in reader.feed(piece):
            pass


class _Errors(logging.Handler):
    """Messages that were logged as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(logging.Formatter().format(record))


class _Target:
    """A server with objects that listens on a unix socket, and one loop that it lives in."""

    def __init__(self) -> None:
        self._errors = _Errors()
        logging.getLogger().addHandler(self._errors)
        self._inputs = 0
        self._loop: VirtualTimeLoop | None = None
        self._server: APIServer | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="cathedra-fuzz-"))

    def __del__(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def take(self, data: bytes) -> None:
        """Send messages over a connection of its own.

        Raises:
            ServerFailure: one is not answered, or answered with an error of the server.
        """
        if self._server is None or self._inputs % FRESH_AFTER == 0:
            self._begin()
        self._inputs += 1
        assert self._loop is not None
        try:
            failures = self._loop.run_until_complete(self._exchange(_messages(data)))
        except BaseException:
            self._server = None
            raise
        logged, self._errors.seen = self._errors.seen, []
        if logged or failures:
            raise ServerFailure("\n".join((*logged, *failures)))

    def _begin(self) -> None:
        if self._loop is not None:
            self._loop.close()
        self._loop = VirtualTimeLoop()
        self._server = self._loop.run_until_complete(self._opened())
        self._errors.seen.clear()

    async def _opened(self) -> APIServer:
        clock = LoopClock(asyncio.get_running_loop())
        server = await APIServer.open(config_of("all"), clock=clock, random=random.Random(7))
        await prepare(server)
        await listen_on_socket(server, self._folder / "api.sock", {TOKEN: UserInfo("admin", (MASTERS_GROUP,))})
        return server

    async def _exchange(self, messages: Sequence[Any]) -> list[str]:
        """Send messages, and return what was wrong with the answers."""
        reader, writer = await asyncio.open_unix_connection(self._folder / "api.sock")
        try:
            writer.write(write_frame([Attach(PROTOCOL, 0, TOKEN), *messages]))
            cancelled = {one.id for one in messages if isinstance(one, Cancel)}
            requests = {one.id: one for one in messages if isinstance(one, RequestMessage)}
            open_ = {number for number, one in requests.items() if one.verb != "watch"} - cancelled
            async with asyncio.timeout(ANSWER_SECONDS):
                failures = await self._answers(reader, open_, requests)
            if any(one.verb == "watch" for one in requests.values()):
                await asyncio.sleep(WATCHED_SECONDS)
            return failures
        except TimeoutError:
            return [f"requests {sorted(open_)} were not answered"]
        except ConnectionError:
            return []
        finally:
            writer.transport.abort()

    async def _answers(self, reader: asyncio.StreamReader, open_: set[int], requests: dict[int, Any]) -> list[str]:
        """Read until all of ``open_`` are answered, or the connection ends."""
        failures: list[str] = []
        decoder = MessageReader(FromServer)
        while open_ and (data := await reader.read(1 << 20)):
            for batch in decoder.feed(data):
                for message in batch:
                    if isinstance(message, FailureMessage) and (problem := _problem(message)):
                        failures.append(f"{requests.get(message.id)}: {problem}")
                    if _is_last(message):
                        open_.discard(message.id)
        return failures


def _is_last(message: Any) -> bool:
    """Return True if no more messages can follow for a request that is no watch."""
    if isinstance(message, ListMessage):
        return bool(message.resource_version)
    return isinstance(message, ObjectMessage | PlainMessage | FailureMessage | EndMessage | UseHTTP)


def _problem(failure: FailureMessage) -> str:
    """The text of a failure that no client could have caused."""
    code = json.loads(failure.status).get("code", 0)
    known = code < 500 or code in ALLOWED or any(text in failure.status for text in UPSTREAM)
    return "" if known else f"{code}: {failure.status[:2000]!r}"


def _messages(data: bytes) -> list[Any]:
    lines = [line for line in data.split(b"\n") if line][:MOST_LINES]
    return [message for number, line in enumerate(lines, 1) if (message := _message(number, line)) is not None]


def _message(number: int, line: bytes) -> Any:
    """Return the message of a line; None for text that no decoder would accept."""
    try:
        first, *fields = line.split(b"\t", 8)
        verb, *texts = [field.decode() for field in (first, *fields[:6])]
    except UnicodeDecodeError:
        return None
    if verb == "attach":
        return Attach(PROTOCOL, 0, TOKEN, "".join(texts[:1]))
    if verb == "cancel":
        return Cancel(int(texts[0]) if texts and texts[0].isdecimal() and len(texts[0]) < 6 else 0)
    texts += [""] * (6 - len(texts))
    options = _options(fields[6] if len(fields) > 6 else b"")
    group, version, resource, namespace, name, subresource = texts
    body = fields[7] if len(fields) > 7 else b""
    return RequestMessage(number, 0, verb, group, version, resource, namespace, name, subresource, 0, options, body)


def _options(text: bytes) -> RequestOptions:
    try:
        options = msgspec.json.decode(text, type=RequestOptions)
        msgspec.msgpack.encode(options)  # numbers above 64 bits cannot be sent
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        return RequestOptions()
    return options


def _focus_body(data: bytes) -> tuple[bytes, bytes, bytes]:
    """The body of the last message that has one."""
    before, tab, body = data.rpartition(b"\t")
    line, newline, after = body.partition(b"\n")
    return before + tab, line, newline + after


def _line(verb: str, path: str, name: str = "", subresource: str = "", body: Any = None, **options: Any) -> bytes:
    """A request for the collection at a path of the API."""
    parts = path.removeprefix("/apis/").removeprefix("/api/").split("/")
    group = parts.pop(0) if path.startswith("/apis/") else ""
    version, *rest = parts
    namespace = rest[1] if len(rest) > 2 else ""
    fields = [verb, group, version, rest[-1], namespace, name, subresource, json.dumps(options)]
    return "\t".join((*fields, "" if body is None else json.dumps(body))).encode()


def _seeds() -> list[bytes]:
    seeds = []
    for path, body in FIXTURES:
        name = str(body["metadata"]["name"])
        made = _line("create", path, body=body)
        labelled = {"metadata": {"labels": {"b": "c"}}}
        after = [
            _line("update", path, name, body=body),
            _line("get", path, name),
            _line("delete", path, name, body={"propagationPolicy": "Foreground", "gracePeriodSeconds": 0}),
            _line("list", path, limit=1, label_selector="a=1", field_selector="metadata.name=x"),
            _line("watch", path, resource_version="0", bookmarks=True),
            _line("deletecollection", path, body={}, label_selector="a"),
            _line(
                "patch", path, name, body=[{"op": "add", "path": "/metadata/labels", "value": {}}], patch_type="JSON"
            ),
            *(_line("patch", path, name, body=labelled, patch_type=one) for one in ("MERGE", "STRATEGIC")),
            _line("patch", path, name, body=body, patch_type="APPLY", field_manager="m", force=True),
            _line("update", path, name, "status", body=body),
        ]
        seeds += [made + b"\n" + one for one in after]
    core, namespaced = "/api/v1", "/api/v1/namespaces/vec"
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    pods = f"{namespaced}/pods"
    pod = _line("create", pods, body=POD)
    seeds += [
        _line("create", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review),
        _line("watch", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        _line("create", "/apis/authentication.k8s.io/v1/tokenreviews", body={"spec": {"token": "x"}}),
        _line("create", f"{namespaced}/serviceaccounts", "default", "token", body={"spec": {"expirationSeconds": 600}}),
        pod + b"\n" + _line("create", pods, "x", "binding", body={"target": {"name": "n"}}),
        pod + b"\n" + _line("create", pods, "x", "eviction", body={"metadata": {"name": "x"}}),
        _line("update", f"{core}/namespaces", "vec", "finalize", body={"metadata": {"name": "vec"}, "spec": {}}),
        _line("get", "/apis/apps/v1/namespaces/vec/deployments", "x", "scale"),
        b"attach\tagent\n" + _line("list", pods) + b"\ncancel\t2\n" + _line("watch", pods) + b"\ncancel\t4",
        *(_line("create", path, body=body) for path, body in ((pods, CLAIM), (pods, DEPLOYMENT), (pods, WIDGET))),
    ]
    return seeds


def _frame_seeds() -> list[bytes]:
    return [bytes(write_frame(_messages(seed))) for seed in _seeds()]


_Made = tuple[Callable[[], Callable[[bytes], Any]], Callable[[], Sequence[bytes]], tuple[type[BaseException], ...], Any]
_SESSIONS: Final[dict[str, _Made]] = {
    "session-frames": (lambda: _frames, _frame_seeds, (FrameError,), None),
    "session-messages": (lambda: _Target().take, _seeds, (), None),
    "session-bodies": (lambda: _Target().take, _seeds, (), _focus_body),
}
NAMES: Final = tuple(_SESSIONS)


def layer(name: str) -> Layer:
    """The layer of that name."""
    make, seeds, refusals, focus = _SESSIONS[name]
    return Layer(name, make(), seeds, refusals, **({"focus": focus} if focus else {}))
