"""Fuzzing of what other servers answer: objects with nulls, as Go writes them, and webhooks that answer in pieces."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from tests.unit.api.nulled import nulled

from cathedra.api.core.admissionregistration_v1 import WebhookClientConfig
from cathedra.api.struct import decode
from cathedra.api.undecodable import Undecodable, rest_of
from cathedra.apiserver.admission.webhooks.client import WebhookAnswer, WebhookCallFailed, WebhookClient, verdict_of
from cathedra.certificates.authority import Authority
from cathedra.client import resources
from cathedra.client.answers import ReceivedObjects, event_of, list_item_by_item
from cathedra.client.transport import MalformedAnswer, ResourceRef
from tools.fuzzing import Layer

__all__ = ["NAMES", "Unequal", "layer"]

KINDS: Final[dict[str, ResourceRef[Any]]] = {
    ref.resource: ref for ref in vars(resources).values() if isinstance(ref, ResourceRef)
}
VERSION, UID = "v1", "u"
CALL_SECONDS: Final = (0.3, 10.0)
"""For one call: many malformed answers leave the client waiting. What differs is compared again with more time."""


class Unequal(Exception):
    """Two forms of one answer were read differently."""


def _null_lists(data: bytes) -> None:
    """Read an object with nulls, and the same object with nothing there: ``KIND SEED`` chooses both."""
    resource, _, seed = data.partition(b" ")
    ref = KINDS.get(resource.decode("latin-1"), resources.PODS)
    made = nulled(ref.type, random.Random(seed))
    written, meant = json.dumps(made.written).encode(), json.dumps(made.meant).encode()
    expected = decode(ref.type, meant)
    event = event_of(ref, b'{"type":"ADDED","object":' + written + b"}", ReceivedObjects())
    _, items, undecodable = list_item_by_item(ref.type, b'{"metadata":null,"items":[' + written + b"]}")
    if undecodable or [decode(ref.type, written), event.object, *items] != [expected] * 3:
        raise Unequal(f"{written!r} is not read as {meant!r}")


def _null_objects(data: bytes) -> None:
    """Read any JSON as an object in a list and in a watch: the first line names its kind."""
    resource, _, body = data.partition(b"\n")
    ref = KINDS.get(resource.decode("latin-1"), resources.PODS)
    found: list[Undecodable] = []
    try:
        found += list_item_by_item(ref.type, b'{"items":[' + body + b',{"metadata":{"name":"good"}}]}')[2]
        event = event_of(ref, b'{"type":"MODIFIED","object":' + body + b"}", ReceivedObjects())
    except MalformedAnswer:
        return
    if event.undecodable is not None:
        found.append(event.undecodable)
    for one in found:
        rest_of(ref.type, one)


def _object_seeds() -> list[bytes]:
    chance = random.Random(1)
    seeds = []
    for resource, ref in KINDS.items():
        for part in ("written", "meant"):
            seeds.append(f"{resource}\n{json.dumps(getattr(nulled(ref.type, chance), part))}".encode())
    return seeds


def _focus_object(data: bytes) -> tuple[bytes, bytes, bytes]:
    kind, newline, body = data.partition(b"\n")
    return kind + newline, body, b""


class _Webhook:
    """A webhook on the loopback that answers with given bytes, and the API server's client of it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._pieces: list[bytes] = []
        self._config = self._loop.run_until_complete(self._serve())

    def take(self, data: bytes) -> None:
        """Compare an answer in one piece with the same answer in the pieces that the first line names.

        Raises:
            Unequal: they are not read alike.
        """
        sizes, _, answer = data.partition(b"\n")
        for seconds in CALL_SECONDS:
            whole = self._loop.run_until_complete(self._called([answer], seconds))
            pieces = self._loop.run_until_complete(self._called(_cut(answer, sizes), seconds))
            # What fails in one piece may be read in several: bytes behind the answer then come too late to spoil it.
            if whole is None or whole == pieces:
                return
        raise Unequal(f"in one piece {whole!r}, in several {pieces!r}")

    async def _serve(self) -> WebhookClientConfig:
        authority = Authority.make(time.time(), "fuzz")
        pair = authority.server(("127.0.0.1",), time.time(), name="webhook")
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.NamedTemporaryFile() as file:
            file.write(pair.certificate + pair.key)
            file.flush()
            tls.load_cert_chain(file.name)
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=tls)
        port = self._server.sockets[0].getsockname()[1]
        return WebhookClientConfig(url=f"https://127.0.0.1:{port}/", ca_bundle=authority.pair.certificate)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            for piece in self._pieces:
                writer.write(piece)
                await writer.drain()
                for _ in range(4):  # turns of the loop in which the client reads the piece
                    await asyncio.sleep(0)
        except (OSError, EOFError):
            pass  # the client has had enough
        finally:
            writer.close()

    async def _called(self, pieces: Sequence[bytes], seconds: float) -> WebhookAnswer | None:
        """Call the webhook, and return its verdict; None if the call has failed."""
        self._pieces = list(pieces)
        registry: Any = None  # is read for services alone
        client = WebhookClient(registry)
        try:
            body = await client.post(self._config, {}, seconds)
            return verdict_of(body, VERSION, UID, may_patch=True)
        except WebhookCallFailed:
            return None
        finally:
            await client.close()


def _cut(answer: bytes, sizes: bytes) -> list[bytes]:
    """Pieces of these sizes, and the rest."""
    pieces = []
    for size in sizes.split()[:50]:
        end = int(size) if size.isdigit() and len(size) < 8 else 1
        pieces.append(answer[:end])
        answer = answer[end:]
    return [*pieces, answer]


def _webhook_seeds() -> list[bytes]:
    review: dict[str, Any] = {"apiVersion": f"admission.k8s.io/{VERSION}", "kind": "AdmissionReview"}
    patch = {"patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EiLCJ2YWx1ZSI6MX1d", "patchType": "JSONPatch"}
    refusal = {"status": {"message": "no", "code": 403}, "auditAnnotations": {"a": "b"}}
    seeds = []
    for response in ({"allowed": True}, {"allowed": False, **refusal}, {"allowed": True, **patch}, {"allowed": None}):
        body = json.dumps(review | {"response": {"uid": UID, "warnings": ["w", None], **response}}).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        chunks = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        seeds += [b"90 3 70 1 1\n" + head + length + body, b"100 30 9\n" + head + chunks]
        seeds.append(b"5 50 100\n" + head + b"Connection: close\r\n\r\n" + body)
    seeds.append(b"9 9\nHTTP/1.1 500 Internal Server Error\r\nContent-Length: 6\r\n\r\nbroken")
    return seeds


@cache
def _webhook() -> _Webhook:
    return _Webhook()


_Made = tuple[Callable[[bytes], Any], Callable[[], Sequence[bytes]], Any]
_ANSWERS: Final[dict[str, _Made]] = {
    "null-lists": (_null_lists, lambda: [f"{name} {seed}".encode() for name in KINDS for seed in range(3)], None),
    "null-objects": (_null_objects, _object_seeds, _focus_object),
    "webhook-answers": (lambda data: _webhook().take(data), _webhook_seeds, None),
}
NAMES: Final = tuple(_ANSWERS)


def layer(name: str) -> Layer:
    """The layer of that name."""
    take, seeds, focus = _ANSWERS[name]
    return Layer(name, take, seeds, (), **({"focus": focus} if focus else {}))
