"""Definitions of custom kinds, their objects, expressions and webhooks."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from cathedra.certificates.authority import Authority
from tools.attack.client import User
from tools.attack.measuring import Attack, Reached, Scene
from tools.attack.target import ADMIN, MEMBER, NAMESPACE, Cluster

__all__ = ["ATTACKS"]

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
WAIT_SECONDS: Final = 0.1
DECIMAL: Final = r"([0-9]+(\.[0-9]*)?)|(\.[0-9]+)"
MOST_ANSWER: Final = 4 << 20


def definition(kind: str, schema: dict[str, Any], columns: Iterable[Any] = ()) -> dict[str, Any]:
    """A definition of a kind whose objects have this schema as ``spec``."""
    plural = kind.lower() + "s"
    whole = {"type": "object", "properties": {"spec": schema}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": whole},
        "additionalPrinterColumns": list(columns),
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": "attack.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    kinds = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return kinds | {"metadata": {"name": f"{plural}.attack.example.com"}, "spec": spec}


def custom(kind: str, name: str, spec: Any) -> dict[str, Any]:
    """An object of such a kind."""
    return {"apiVersion": "attack.example.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def defined(cluster: Cluster, kind: str, schema: dict[str, Any], columns: Iterable[Any] = ()) -> str:
    """Define a kind, and return the path of its objects once it is served."""
    await cluster.admin.create(DEFINITIONS, definition(kind, schema, columns))
    path = f"/apis/attack.example.com/v1/namespaces/{NAMESPACE}/{kind.lower()}s"
    while (await cluster.admin.send("GET", path)).status != 200:  # noqa: ASYNC110  # another process
        await asyncio.sleep(WAIT_SECONDS)
    return path


async def bounded(user: User, method: str, path: str, body: Any = None) -> None:
    """Send a request whose answer must be of a size in proportion.

    Raises:
        Reached: it is larger than 4 MiB.
    """
    answer = await user.send(method, path, body)
    if len(answer.body) > MOST_ANSWER:
        raise Reached(f"{method} was answered with {len(answer.body)} bytes")


async def quantities(scene: Scene) -> None:
    """Valid quantities, each of which has to match the pattern of quantities."""
    quantity = {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": rf"^(\+|-)?({DECIMAL})(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?({DECIMAL})))?$",
    }
    path = await defined(scene.cluster, "Quantity", {"type": "array", "items": quantity})
    body = json.dumps(
        custom("Quantity", "q", [f"{number}Mi" for number in range(260_000)]), separators=(",", ":")
    ).encode()
    scene.begin()
    await bounded(scene.cluster.member, "POST", f"{path}?dryRun=All", body)


async def any_of(scene: Scene) -> None:
    """Items that match none of many alternatives."""
    items = {"type": "string", "anyOf": [{"pattern": f"^x{number}$"} for number in range(400)]}
    path = await defined(scene.cluster, "Alternative", {"type": "array", "items": items})
    scene.begin()
    await bounded(scene.cluster.member, "POST", path, custom("Alternative", "a", ["y"] * 100_000))


async def enum(scene: Scene) -> None:
    """Items that are none of many allowed values, which each refusal names."""
    items = {"type": "string", "enum": [f"v{number:05}" for number in range(100_000)]}
    path = await defined(scene.cluster, "Choice", {"type": "array", "items": items})
    scene.begin()
    await bounded(scene.cluster.member, "POST", path, custom("Choice", "c", ["y"] * 400))


async def defaults(scene: Scene) -> None:
    """Items that each get a long default."""
    items = {"type": "object", "properties": {"p": {"type": "string", "default": "x" * 20_000}}}
    path = await defined(scene.cluster, "Default", {"type": "array", "items": items})
    scene.begin()
    answer = await scene.cluster.member.send("POST", path, custom("Default", "d", [{}] * 10_000))
    if answer.status < 400:
        raise Reached(f"an object of {len(answer.body)} bytes was stored")


async def columns(scene: Scene) -> None:
    """A table with many columns and rows."""
    many = [{"name": f"C{number}", "type": "string", "jsonPath": f".spec.a{number % 10}"} for number in range(2000)]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = await defined(scene.cluster, "Column", schema, many)
    spec = {f"a{number}": "x" for number in range(10)}
    await scene.cluster.member.create_many(path, [custom("Column", f"c{number}", spec) for number in range(2000)])
    scene.begin()
    connection = scene.hold(await scene.cluster.member.connect())
    await connection.send("GET", path, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")


async def openapi(scene: Scene) -> None:
    """Definitions, after each of which the whole document is read again."""
    schema = {
        "type": "object",
        "properties": {
            f"p{number}": {"type": "object", "properties": {"a": {"type": "string"}}} for number in range(100)
        },
    }
    scene.begin()
    connection = scene.hold(await scene.cluster.admin.connect())
    for number in range(150):
        await connection.send("POST", DEFINITIONS, definition(f"Document{number}", schema))
        if number % 5 == 0:
            await connection.send("GET", "/openapi/v2")
    await connection.send("GET", "/openapi/v3/apis/attack.example.com/v1")
    await _undefined(scene.cluster, [f"document{number}s" for number in range(150)])


async def _undefined(cluster: Cluster, plurals: Iterable[str]) -> None:
    connection = await cluster.admin.connect()
    for plural in plurals:
        await connection.send("DELETE", f"{DEFINITIONS}/{plural}.attack.example.com")
    connection.abort()


async def nested_rule(scene: Scene) -> None:
    """Rules over pairs and triples of a list's items, for ten clients at a time."""
    numbers = {"type": "array", "maxItems": 400, "items": {"type": "integer"}}
    rules = [{"rule": f"self.l.all(x, self.l.all(y, x + y + {number} >= 0))"} for number in range(10)]
    path = await defined(
        scene.cluster, "Rule", {"type": "object", "properties": {"l": numbers}, "x-kubernetes-validations": rules}
    )
    body = {"l": list(range(400))}
    scene.begin()
    await _at_once(
        10,
        10,
        lambda number: scene.cluster.member.send("POST", f"{path}?dryRun=All", custom("Rule", f"r{number}", body)),
    )


async def nested_policy(scene: Scene) -> None:
    """A policy over triples of an object's keys, for ten clients at a time."""
    keys = "object.data"
    expression = f"!has({keys}) || {keys}.all(a, {keys}.all(b, {keys}.all(c, a != 'x' || b != 'y' || c != 'z')))"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression}],
    }
    policies = f"{ADMISSION}/validatingadmissionpolicies"
    await scene.cluster.admin.create(policies, {"metadata": {"name": "nested"}, "spec": spec})
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}
    binding = {"policyName": "nested", "validationActions": ["Deny"], "matchResources": selector}
    bindings = f"{ADMISSION}/validatingadmissionpolicybindings"
    await scene.cluster.admin.create(bindings, {"metadata": {"name": "nested"}, "spec": binding})
    data = {f"k{number}": "x" for number in range(300)}
    scene.begin()
    try:
        await _at_once(
            10,
            10,
            lambda number: scene.cluster.member.send(
                "POST", f"{MAPS}?dryRun=All", {"metadata": {"name": f"n{number}"}, "data": data}
            ),
        )
    finally:
        await scene.cluster.admin.send("DELETE", f"{bindings}/nested")
        await scene.cluster.admin.send("DELETE", f"{policies}/nested")


async def _at_once(clients: int, seconds: float, send: Callable[[int], Awaitable[Any]]) -> None:
    """Let clients send again and again for some seconds."""
    deadline = time.monotonic() + seconds

    async def client(number: int) -> None:
        while time.monotonic() < deadline:
            await send(number)

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds + 10):
            await asyncio.gather(*(client(number) for number in range(clients)))


async def slow_webhook(scene: Scene) -> None:
    """A webhook that answers some requests in pieces, one byte at a time, and others never."""
    async with _serving(scene.cluster) as (port, authority):
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        selector = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
        hook = {
            "name": "slow.attack.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": authority},
            "rules": [rule],
        }
        hook |= {
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 10,
            "namespaceSelector": selector,
        }
        path = f"{ADMISSION}/validatingwebhookconfigurations"
        await scene.cluster.admin.create(path, {"metadata": {"name": "slow"}, "webhooks": [hook]})
        await asyncio.sleep(1)
        scene.begin()
        try:
            answers = await asyncio.gather(
                *(
                    scene.cluster.member.send("POST", MAPS, {"metadata": {"name": f"{kind}-{number}"}})
                    for number in range(50)
                    for kind in ("pieces", "never")
                )
            )
        finally:
            await scene.cluster.admin.send("DELETE", f"{path}/slow")
        let_in = sum(answer.status < 300 for answer in answers[::2])
        if let_in:
            raise Reached(f"{let_in} refusals in pieces were ignored")


@asynccontextmanager
async def _serving(cluster: Cluster) -> AsyncIterator[tuple[int, str]]:
    """A webhook that refuses in pieces what is called ``pieces-…``, and never answers to anything else."""
    authority = Authority.make(time.time(), "attack")
    pair = authority.server(("127.0.0.1",), time.time(), name="webhook")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        tls.load_cert_chain(file.name)
    server = await asyncio.start_server(_judge, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1], base64.b64encode(authority.pair.certificate).decode()
        server.close()


async def _judge(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
    review = json.loads(await reader.readexactly(length))
    if not review["request"]["name"].startswith("pieces-"):
        with suppress(OSError):
            await reader.read()  # until the API server gives up
        writer.close()
        return
    response = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "refused " + "x" * 200}}
    answer = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer))
    for start in range(len(answer)):
        writer.write(answer[start : start + 1])
        await writer.drain()
        await asyncio.sleep(0.002)
    writer.close()


ATTACKS: Final = (
    Attack("quantities", "custom object with valid quantities", "260,000 quantities, 3 MB", MEMBER, quantities),
    Attack("any-of", "custom object with wrong items under an `anyOf`", "100,000 items, 400 branches", MEMBER, any_of),
    Attack("enum", "custom object with wrong items under an `enum`", "400 items, 100,000 values", MEMBER, enum),
    Attack("defaults", "custom object whose items have defaults", "30 kB, defaults of 200 MB", MEMBER, defaults),
    Attack(
        "printer-columns",
        "table of custom objects (a tenth of the rows)",
        "2,000 columns × 2,000 objects",
        MEMBER,
        columns,
    ),
    Attack(
        "definitions",
        "definitions, and the OpenAPI documents after every fifth (a seventh of the definitions)",
        "150 definitions",
        ADMIN,
        openapi,
    ),
    Attack(
        "nested-rules", "rules of a definition over pairs of items, ten clients", "10 rules × 400²", MEMBER, nested_rule
    ),
    Attack("nested-policy", "policy with a nested `all`, ten clients", "300³", MEMBER, nested_policy),
    Attack("slow-webhook", "a webhook that answers byte by byte or never", "100 requests", MEMBER, slow_webhook),
)
