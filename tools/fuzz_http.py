"""Fuzzing of the API server: whole requests, straight into its ASGI application, in virtual time.

An input is a request as text: ``METHOD /path?query``, header lines, an empty line, the body. Each layer mutates one
part of requests that the conformance vectors have recorded. Promised of every answer: a status below 500, no logged
error, no event loop held for longer than the limit.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Final
from urllib.parse import unquote

from tests.conformance.api_area import TOKEN, Answer, config_of, prepare, send

from cathedra.apiserver.server import APIServer
from cathedra.clock import LoopClock, VirtualTimeLoop
from tools.fuzzing import Layer
from tools.recorded import recorded

__all__ = ["NAMES", "ServerFailure", "layer"]

FRESH_AFTER: Final = 3_000
"""Inputs after which a new server takes over, so that what was created does not pile up."""
ALLOWED: Final = frozenset({501, 503, 504})
"""Statuses above 499 that are no fault: not implemented, not ready, a deadline that the request has set."""
UPSTREAM: Final = (
    b"failed to create typed patch object",
    b"strconv.ParseUint",
    b"Unsupported value",
    b"unable to parse requirement",
    b"unknown patch type: ",
    b"does not contain declared merge key: ",
    b"merging lists cannot yet be specified in the patch",
    b"list element types are not identical: ",
    b"resourceVersion should not be set on objects to be created",
    b"requested groups, extra or uid without impersonating a user",
    b"failed to convert new object ",
    b"target.name: Required value",
    b"failed calling webhook ",
)
"""Parts of what Kubernetes itself answers with 500: errors that it gives no status of their own."""
HANGS_UP_AFTER: Final = 30.0
"""Virtual seconds after which the client disconnects; a server that has not ended the request a minute later is
stuck."""
ADMIN: Final = b"authorization: Bearer " + TOKEN.encode()
API: Final = b"/apis/resource.k8s.io/v1/namespaces/vec/resourceclaims"
CLAIM: Final[dict[str, Any]] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "x", "namespace": "vec", "labels": {"a": "1"}, "finalizers": ["example.com/f"]},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
}
POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "x", "namespace": "vec"},
    "spec": {
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    },
}
DEPLOYMENT: Final[dict[str, Any]] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "x", "namespace": "vec"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]},
        },
    },
}
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "x-kubernetes-validations": [{"rule": "self.size < 10 || self.names.all(n, n != 'a')", "message": "no"}],
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": 1, "default": 3},
                "names": {
                    "type": "array",
                    "maxItems": 20,
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string", "maxLength": 30, "pattern": "^[a-z]+$"},
                },
                "when": {"type": "string", "format": "date-time"},
                "more": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "any": {"x-kubernetes-int-or-string": True},
                "map": {"type": "object", "additionalProperties": {"type": "number"}},
            },
        }
    },
}
DEFINITION: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.n"},
                },
            }
        ],
    },
}
WIDGET: Final[dict[str, Any]] = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "x", "namespace": "vec"},
    "spec": {
        "size": 3,
        "names": ["b"],
        "when": "2024-01-01T00:00:00Z",
        "more": {"a": 1},
        "any": "1",
        "map": {"k": 1.5},
    },
}
FIXTURES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("/apis/resource.k8s.io/v1/namespaces/vec/resourceclaims", CLAIM),
    ("/api/v1/namespaces/vec/pods", POD),
    ("/apis/apps/v1/namespaces/vec/deployments", DEPLOYMENT),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION),
    ("/apis/example.com/v1/namespaces/vec/widgets", WIDGET),
)
"""Collections and the object ``x`` (or the definition) that requests about single objects find in them."""


class ServerFailure(Exception):
    """The server answered with an error of its own, or logged one."""


class _Errors(logging.Handler):
    """Messages that were logged as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(logging.Formatter().format(record))


class Target:
    """A server with objects, and one loop that it lives in."""

    def __init__(self) -> None:
        self._errors = _Errors()
        logging.getLogger().addHandler(self._errors)
        self._inputs = 0
        self._loop: VirtualTimeLoop | None = None
        self._server: APIServer | None = None

    def take(self, data: bytes) -> None:
        """Send one request.

        Raises:
            ServerFailure: the answer is no answer.
        """
        if self._server is None or self._inputs % FRESH_AFTER == 0:
            self._begin()
        self._inputs += 1
        request = _parse(data)
        if request is None:
            return
        assert self._loop is not None
        try:
            answer = self._loop.run_until_complete(self._request(*request))
        except BaseException:
            self._server = None
            raise
        self._judge(answer)

    def _judge(self, answer: Answer) -> None:
        logged, self._errors.seen = self._errors.seen, []
        if logged:
            raise ServerFailure("\n".join(logged))
        if answer.status >= 500 and answer.status not in ALLOWED and not any(text in answer.body for text in UPSTREAM):
            raise ServerFailure(f"{answer.status}: {answer.body[:2000]!r}")
        if not answer.status:
            raise ServerFailure("no answer at all")

    def _begin(self) -> None:
        if self._loop is not None:
            if self._server is not None:
                self._loop.run_until_complete(self._server.close())
            self._loop.close()
        self._loop = VirtualTimeLoop()
        self._loop.set_exception_handler(self._in_loop)
        self._server = self._loop.run_until_complete(self._opened())
        self._errors.seen.clear()

    def _in_loop(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        logging.getLogger("fuzz").error(context["message"], exc_info=error)

    async def _opened(self) -> APIServer:
        clock = LoopClock(asyncio.get_running_loop())
        server = await APIServer.open(config_of("all"), clock=clock, random=random.Random(7))
        await prepare(server)
        for collection, body in FIXTURES:
            await self._send(server, "POST", collection, "", [_JSON], json.dumps(body).encode())
        return server

    async def _request(
        self, method: str, path: str, query: str, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> Answer:
        assert self._server is not None
        if method in {"PATCH", "PUT", "DELETE"}:
            for collection, fixture in FIXTURES:
                if path.startswith(collection):
                    await self._send(self._server, "POST", collection, "", [_JSON], json.dumps(fixture).encode())
        async with asyncio.timeout(2 * HANGS_UP_AFTER):
            return await _exchange(self._server, method, path, query, headers, body)

    async def _send(self, server: APIServer, method: str, path: str, query: str, headers: Any, body: bytes) -> Answer:
        return await send(server, method, path, query, [_pair(ADMIN), *headers], body)


async def _exchange(
    server: APIServer, method: str, path: str, query: str, headers: list[tuple[bytes, bytes]], body: bytes
) -> Answer:
    """One request of a client that hangs up after a while."""
    answer = Answer()
    begun = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if begun:
            return begun.pop()
        await asyncio.sleep(HANGS_UP_AFTER)
        return {"type": "http.disconnect"}

    async def take(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
        elif message["type"] == "http.response.body":
            answer.body += message.get("body", b"")

    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 6443),
        "scheme": "https",
        "http_version": "1.1",
        "extensions": {},
    }
    await server.app(scope, receive, take)
    return answer


_JSON: Final = (b"content-type", b"application/json")


def _pair(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.strip().lower(), value.strip()


def _parse(data: bytes) -> tuple[str, str, str, list[tuple[bytes, bytes]], bytes] | None:
    """The request in ``data``; None for what an HTTP parser in front of the application would refuse."""
    head, _, body = data.partition(b"\n\n")
    lines = head.split(b"\n")
    method, _, target = lines[0].partition(b" ")
    path, _, query = target.partition(b"?")
    usable = path.startswith(b"/") and method.isalpha() and method.isupper() and path.isascii() and query.isascii()
    if not usable or b" " in target or any(byte < 33 for byte in target):
        return None
    headers = [_pair(line) for line in lines[1:] if line.strip() and not any(byte < 32 and byte != 9 for byte in line)]
    watch = b"watch=" in query or b"/watch/" in path
    more = b"&timeoutSeconds=1" if watch and b"timeoutSeconds" not in query else b""
    return method.decode(), path.decode(), (query + more).decode(), headers, body


# Where mutations go.


def _focus_body(data: bytes) -> tuple[bytes, bytes, bytes]:
    head, blank, body = data.partition(b"\n\n")
    return head + blank, body, b""


def _focus_path(data: bytes) -> tuple[bytes, bytes, bytes]:
    method, blank, rest = data.partition(b" ")
    ends = [place for place in (rest.find(b"?"), rest.find(b"\n")) if place >= 0]
    end = min(ends, default=len(rest))
    return method + blank, rest[:end], rest[end:]


def _focus_query(data: bytes) -> tuple[bytes, bytes, bytes]:
    line, newline, rest = data.partition(b"\n")
    target, mark, query = line.partition(b"?")
    return target + (mark or b"?"), query, newline + rest


def _focus_headers(data: bytes) -> tuple[bytes, bytes, bytes]:
    head, blank, body = data.partition(b"\n\n")
    line, newline, headers = head.partition(b"\n")
    return line + newline, headers, blank + body


# Seeds.


def _text(method: str, path: str, query: str, headers: Sequence[bytes], body: bytes) -> bytes:
    target = path + (f"?{query}" if query else "")
    return b"\n".join((f"{method} {target}".encode(), ADMIN, *headers)) + b"\n\n" + body


@cache
def _steps() -> tuple[dict[str, Any], ...]:
    """Every recorded request that refers to no earlier answer."""
    steps = (step for case in recorded("api") for step in case["steps"])
    return tuple(step for step in steps if "$(" not in json.dumps(step) and step["method"] != "WATCH")


def _of_step(step: dict[str, Any]) -> bytes:
    headers = [f"content-type: {step.get('content_type', 'application/json')}".encode()]
    if "accept" in step:
        headers.append(f"accept: {step['accept']}".encode())
    body = step.get("body", b"")
    if not isinstance(body, bytes):
        body = (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogatepass")
    return _text(step["method"], step["path"], step.get("query", ""), headers, body)


def _recorded(wanted: Callable[[dict[str, Any]], bool], most: int = 600) -> list[bytes]:
    chosen = [_of_step(step) for step in _steps() if wanted(step)]
    return random.Random(1).sample(chosen, most) if len(chosen) > most else chosen


def _patches(kind: str) -> list[bytes]:
    about = {collection: f"{collection}/{body['metadata']['name']}" for collection, body in FIXTURES}
    seeds = _recorded(lambda step: step["method"] == "PATCH" and kind in step.get("content_type", ""))
    for target in about.values():
        seeds.append(
            _text("PATCH", target, _PATCH_QUERY[kind], [f"content-type: application/{kind}".encode()], _PATCHES[kind])
        )
    return seeds


_PATCH_QUERY: Final = {
    "json-patch+json": "",
    "merge-patch+json": "",
    "strategic-merge-patch+json": "",
    "apply-patch+yaml": "fieldManager=f&force=true",
}
_PATCHES: Final = {
    "json-patch+json": b"""[{"op":"test","path":"/metadata/name","value":"x"},
{"op":"add","path":"/metadata/labels","value":{"a":"b"}},
{"op":"copy","from":"/metadata/labels","path":"/metadata/annotations"},{"op":"move","from":"/metadata/labels/a","path":"/metadata/labels/c"},{"op":"remove","path":"/metadata/annotations"},
{"op":"replace","path":"/spec/replicas","value":2}]""",
    "merge-patch+json": b"""{"metadata":{"labels":{"a":null,"b":"c"},"finalizers":["example.com/g"]},
"spec":{"replicas":2}}""",
    "strategic-merge-patch+json": b"""{"metadata":{"finalizers":["example.com/g"],
"$deleteFromPrimitiveList/finalizers":["example.com/f"]},"spec":{"containers":[{"name":"c","image":"j","$patch":"merge"}],
"$setElementOrder/containers":[{"name":"c"}],"tolerations":[{"$patch":"replace"}],
"template":{"$retainKeys":["spec"],"spec":{"containers":[{"name":"c","$patch":"delete"}]}}}}""",
    "apply-patch+yaml": b"""apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: x, labels: {a: b}}
spec:
  devices:
    requests:
    - {name: r, exactly: &e {deviceClassName: gpu.example.com}}
    - {name: s, exactly: *e}
""",
}


def _yaml_seeds() -> list[bytes]:
    import yaml

    bodies = [yaml.safe_dump(step["body"]) for step in _steps() if isinstance(step.get("body"), dict)][:200]
    bodies.append(
        "a: &a [x, x]\nb: &b [*a, *a]\nc: {<<: {apiVersion: v1}, kind: ConfigMap}\n? [1, 2]\n: 3\nnull: 1\ntrue: 2\n"
    )
    header = [b"content-type: application/yaml"]
    return [_text("POST", API.decode(), "", header, body.encode("utf-8", "surrogatepass")) for body in bodies]


def _protobuf_seeds() -> list[bytes]:
    header = [b"content-type: application/vnd.kubernetes.protobuf", b"accept: application/vnd.kubernetes.protobuf"]
    found: list[bytes] = []

    async def collect() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        server = await APIServer.open(config_of("all"), clock=clock, random=random.Random(7))
        await prepare(server)
        for collection, body in FIXTURES[:3]:
            plain = [_pair(ADMIN), _JSON, (b"accept", b"application/vnd.kubernetes.protobuf")]
            answer = await send(server, "POST", collection, "", plain, json.dumps(body).encode())
            found.append(_text("POST", collection, "", header, answer.body))
            found.append(_text("PUT", f"{collection}/x", "", header, answer.body))

    loop = VirtualTimeLoop()
    loop.run_until_complete(collect())
    loop.close()
    return found


def _header_seeds() -> list[bytes]:
    path = API.decode()
    lines = (
        (b"accept: application/json;as=Table;v=v1;g=meta.k8s.io, application/json;q=0.5", b"accept-encoding: gzip;q=1"),
        (b"accept: application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",),
        (
            b"impersonate-user: system:serviceaccount:vec:default",
            b"impersonate-group: a",
            b"impersonate-extra-a%2fb: c",
        ),
        (b"content-length: 99999999999999999999", b"content-encoding: gzip", b"x-forwarded-for: 1.2.3.4"),
        (b"user-agent: " + b"u" * 300, b'if-none-match: "abc"', b"audit-id: 1"),
    )
    seeds = [_text("GET", path, "", headers, b"") for headers in lines]
    return [
        *seeds,
        _text("GET", "/openapi/v2", "", [b"accept: application/com.github.proto-openapi.spec.v2@v1.0+protobuf"], b""),
    ]


_CLAIMS_OF_TOKEN: Final = (
    "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMiLCJzdWIiOiJhIn0.c2ln"
)


def _token_seeds() -> list[bytes]:
    values = (
        f"Bearer {_CLAIMS_OF_TOKEN}",
        "Bearer a.b.c",
        f"bearer  {TOKEN}",
        "Basic YTpi",
        "Bearer " + "[" * 3_000,
        "Bearer ..",
    )
    return [f"GET {API.decode()}\nauthorization: {value}\n\n".encode() for value in values]


def _query_seeds() -> list[bytes]:
    queries = (
        "watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=1&sendInitialEvents=true"
        "&resourceVersionMatch=NotOlderThan",
        "limit=1&continue=eyJydiI6MX0&resourceVersion=0&timeout=1s",
        "labelSelector=a%20in%20(b,c),!d,e!=f,g>1&fieldSelector=metadata.name%3Dx,spec.nodeName!=y",
        "pretty=true&timeoutSeconds=99999999999999999999&watch=T",
        "labelSelector=" + "a," * 200,
    )
    seeds = [_text("GET", API.decode(), query, [], b"") for query in queries]
    seeds.append(
        _text("DELETE", f"{API.decode()}/x", "gracePeriodSeconds=1&propagationPolicy=Orphan&dryRun=All", [], b"")
    )
    seeds.append(
        _text(
            "GET", "/api/v1/namespaces/vec/pods/x/log", "tailLines=3&sinceSeconds=1&limitBytes=5&follow=false", [], b""
        )
    )
    return seeds + _recorded(lambda step: bool(step.get("query")), 300)


def _delete_seeds() -> list[bytes]:
    body = b"""{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"a"},
"propagationPolicy":"Foreground"}"""
    paths = [f"{collection}/{fixture['metadata']['name']}" for collection, fixture in FIXTURES]
    seeds = [_text("DELETE", path, "", [b"content-type: application/json"], body) for path in paths]
    seeds.append(_text("DELETE", API.decode(), "labelSelector=a", [b"content-type: application/json"], body))
    return seeds + _recorded(lambda step: step["method"] == "DELETE")


def _review_seeds() -> list[bytes]:
    bodies: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("authentication.k8s.io/v1", "TokenReview", {"token": _CLAIMS_OF_TOKEN, "audiences": ["a"]}),
        (
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            {
                "user": "u",
                "groups": ["g"],
                "extra": {"a": ["b"]},
                "resourceAttributes": {
                    "verb": "list",
                    "resource": "pods",
                    "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]},
                },
            },
        ),
        (
            "authorization.k8s.io/v1",
            "SelfSubjectAccessReview",
            {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}},
        ),
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview", {"namespace": "vec"}),
    )
    header = [b"content-type: application/json"]
    seeds = [
        _text("POST", f"/apis/{version}/{kind.lower()}s", "", header, json.dumps(_review(version, kind, spec)).encode())
        for version, kind, spec in bodies
    ]
    token = _review("authentication.k8s.io/v1", "TokenRequest", {"audiences": ["a"], "expirationSeconds": 600})
    path = "/api/v1/namespaces/vec/serviceaccounts/default/token"
    return [*seeds, _text("POST", path, "", header, json.dumps(token).encode())]


def _review(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "spec": spec}


def _scale_seeds() -> list[bytes]:
    targets = (
        "/apis/apps/v1/namespaces/vec/deployments/x/scale",
        "/apis/example.com/v1/namespaces/vec/widgets/x/scale",
    )
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "x", "namespace": "vec"},
        "spec": {"replicas": 3},
    }
    bodies = (
        ("PUT", "application/json", json.dumps(scale).encode()),
        ("PATCH", "application/merge-patch+json", b'{"spec":{"replicas":4}}'),
        (
            "PATCH",
            "application/json-patch+json",
            b'[{"op":"replace","path":"/spec/replicas","value":2},{"op":"replace","path":"","value":{}}]',
        ),
        ("PATCH", "application/strategic-merge-patch+json", b'{"spec":{"replicas":5}}'),
    )
    return [
        _text(method, target, "", [f"content-type: {media}".encode()], body)
        for target in targets
        for method, media, body in bodies
    ]


def _definition_seeds() -> list[bytes]:
    path = FIXTURES[3][0]
    header = [b"content-type: application/json"]
    other = (
        json.dumps(DEFINITION)
        .replace("widgets", "gadgets")
        .replace("widget", "gadget")
        .replace("Widget", "Gadget")
        .encode()
    )
    return [
        _text("PUT", f"{path}/widgets.example.com", "", header, json.dumps(DEFINITION).encode()),
        _text("POST", path, "", header, other),
        *_recorded(lambda step: "customresourcedefinitions" in step["path"] and "body" in step),
    ]


def _custom_seeds() -> list[bytes]:
    collection = FIXTURES[4][0]
    body = json.dumps(WIDGET).encode()
    header = [b"content-type: application/json"]
    seeds = [
        _text("POST", collection, "", header, body.replace(b'"x"', b'"y"')),
        _text("PUT", f"{collection}/x", "", header, body),
    ]
    for kind in ("json-patch+json", "merge-patch+json", "apply-patch+yaml"):
        content = [f"content-type: application/{kind}".encode()]
        patch = body if kind.startswith("apply") else _PATCHES[kind]
        seeds.append(_text("PATCH", f"{collection}/x", _PATCH_QUERY[kind], content, patch))
    return seeds


def _managed_seeds() -> list[bytes]:
    fields = {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {"f:devices": {"f:requests": {'k:{"name":"r"}': {".": {}}}}},
    }
    entry = {
        "manager": "m",
        "operation": "Apply",
        "apiVersion": "resource.k8s.io/v1",
        "time": "2024-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    claim = {**CLAIM, "metadata": {**CLAIM["metadata"], "managedFields": [entry]}}
    header = [b"content-type: application/json"]
    return [_text("PUT", f"{API.decode()}/x", "fieldManager=n", header, json.dumps(claim).encode())]


_HTTP: Final[dict[str, tuple[Callable[[], list[bytes]], Callable[[bytes], tuple[bytes, bytes, bytes]]]]] = {
    "http-path": (lambda: [*_recorded(lambda _: True, 300), *_paths()], _focus_path),
    "http-query": (_query_seeds, _focus_query),
    "http-headers": (_header_seeds, _focus_headers),
    "http-tokens": (_token_seeds, _focus_headers),
    "http-json": (lambda: _recorded(lambda step: step["method"] in {"POST", "PUT"} and "body" in step), _focus_body),
    "http-yaml": (_yaml_seeds, _focus_body),
    "http-protobuf": (_protobuf_seeds, _focus_body),
    "http-json-patch": (lambda: _patches("json-patch+json"), _focus_body),
    "http-merge-patch": (lambda: _patches("merge-patch+json"), _focus_body),
    "http-strategic-patch": (lambda: _patches("strategic-merge-patch+json"), _focus_body),
    "http-apply": (lambda: _patches("apply-patch+yaml"), _focus_body),
    "http-managed-fields": (_managed_seeds, _focus_body),
    "http-delete-options": (_delete_seeds, _focus_body),
    "http-reviews": (_review_seeds, _focus_body),
    "http-scale": (_scale_seeds, _focus_body),
    "http-definitions": (_definition_seeds, _focus_body),
    "http-custom-objects": (_custom_seeds, _focus_body),
}
NAMES: Final = tuple(_HTTP)


def _paths() -> Iterator[bytes]:
    for path in (
        "/apis/resource.k8s.io/v1/namespaces/vec/pods/x/exec",
        "/api/v1/namespaces/vec/pods/x/log",
        "/api/v1/namespaces/vec/pods/x/status",
        "/api/v1/nodes/n/proxy/metrics",
        "/openapi/v3/apis/apps/v1",
        "/healthz/etcd",
        "/api/v1/watch/namespaces/vec/pods",
    ):
        yield _text("GET", path, "", [], b"")


def layer(name: str) -> Layer:
    """The layer of that name with a server of its own."""
    logging.getLogger().setLevel(logging.ERROR)
    seeds, focus = _HTTP[name]
    target = Target()
    return Layer(name, partial(Target.take, target), seeds, (), focus)
