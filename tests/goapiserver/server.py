"""An API server on loopback that answers byte for byte as kube-apiserver does, with objects from memory.

It runs on a thread with an event loop of its own, so a test may be plain or asynchronous, and what it tests may be in
this process or in another.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from cathedra.api.scheme import GroupVersionKind
from cathedra.api.selectors import parse_field_selector, parse_label_selector
from cathedra.apiserver.patches.json_patch import JSONPatchError, json_patch
from cathedra.apiserver.patches.merge_patch import merge_patch
from cathedra.apiserver.patches.strategic import StrategicPatchError, strategic_patch
from cathedra.certificates.authority import Authority
from cathedra.client.kubeconfig import Target
from cathedra.releases import NEWEST
from tests.goapiserver.objects import Change, ObjectStore, Refused, Resource, Stored, served_resources
from tests.goapiserver.writing import go_object, to_json

__all__ = ["NEWER_FIELDS", "GoAPIServer", "go_api_server"]

NEWER_FIELDS: Final[Mapping[str, Any]] = {
    "fieldOfANewerRelease": {"enabled": True, "names": None, "weights": [0.5, 1e21, 1e-7, 3], "text": "a<b>&c"}
}
"""Fields that a later release writes into metadata, spec and status of every object."""
_PLAIN: Final = {
    "/healthz": b"ok",
    "/livez": b"ok",
    "/readyz": b"ok",
    "/version": to_json({"major": "1", "minor": "37", "gitVersion": "v1.37.0", "platform": "linux/amd64"}),
}
_STARTED_SECONDS: Final = 30.0
_REVIEWS: Final[Mapping[str, Mapping[str, Any]]] = {
    "SelfSubjectAccessReview": {"allowed": True},
    "LocalSubjectAccessReview": {"allowed": True},
    "SubjectAccessReview": {"allowed": True},
    "TokenReview": {"authenticated": True, "user": {"username": "tests", "groups": ["system:masters"]}},
}
"""Answers to what is posted and not kept."""
_POSTED: Final[Mapping[tuple[str, str], GroupVersionKind]] = {
    ("authentication.k8s.io", "tokenreviews"): GroupVersionKind("authentication.k8s.io", "v1", "TokenReview"),
    **{
        ("authorization.k8s.io", f"{kind.lower()}s"): GroupVersionKind("authorization.k8s.io", "v1", kind)
        for kind in ("SelfSubjectAccessReview", "LocalSubjectAccessReview", "SubjectAccessReview")
    },
}


class GoAPIServer:
    """The server; `go_api_server` starts one.

    ``put`` stores an object as kube-apiserver would write it, ``put_verbatim`` one that is sent as it is given.
    ``requests`` are the requests so far, each as ``METHOD path``.
    """

    def __init__(self, store: ObjectStore, resources: dict[tuple[str, str, str], Resource]) -> None:
        self.store = store
        self.requests: list[str] = []
        self.url = ""
        self.authority = b""
        self.bookmark_seconds = 60.0
        self._resources = resources
        self._chance = random.Random(2)
        self._wakers: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        store.changed.append(self._wake)

    @property
    def target(self) -> Target:
        """Address and credentials for clients."""
        return Target(self.url, certificate_authority=self.authority, token="tests" if self.authority else "")

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for the server to ``path``."""
        cluster: dict[str, Any] = {"server": self.url}
        if self.authority:
            cluster["certificate-authority-data"] = base64.b64encode(self.authority).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "go", "cluster": cluster}],
            "users": [{"name": "tests", "user": {"token": "tests"}}],
            "contexts": [{"name": "go", "context": {"cluster": "go", "user": "tests"}}],
            "current-context": "go",
        }
        path.write_text(json.dumps(document))
        return path

    def put(self, *values: Mapping[str, Any]) -> None:
        """Store objects, which name their kind and apiVersion."""
        for value in values:
            self.store.put(self.resource(value["apiVersion"], value["kind"]), value)

    def put_verbatim(self, value: Mapping[str, Any]) -> None:
        """Store an object that is sent as it is, whatever its fields hold."""
        self.store.put_verbatim(self.resource(value["apiVersion"], value["kind"]), value)

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        """The plain values of an object.

        Raises:
            Refused: there is none.
        """
        return self.store.get(self.resource(api_version, kind), namespace, name).value

    def find(self, api_version: str, kind: str) -> list[dict[str, Any]]:
        """The plain values of all objects of a kind."""
        return [stored.value for stored in self.store.all_of(self.resource(api_version, kind))[0]]

    def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind.

        Raises:
            KeyError: the server has none.
        """
        gvk = GroupVersionKind.parse(api_version, kind)
        for resource in self._resources.values():
            if resource.gvk == gvk:
                return resource
        raise KeyError(gvk)

    def add_resource(self, resource: Resource) -> None:
        """Serve a resource besides, such as a custom one."""
        self._resources[resource.gvk.group, resource.gvk.version, resource.plural] = resource

    def _wake(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake_watches)

    def _wake_watches(self) -> None:
        for waker in self._wakers:
            waker.set()

    # --- on the server's own loop

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        self.requests.append(f"{request.method} {request.path}")
        try:
            return await self._dispatch(request)
        except Refused as error:
            return _json(_status(error), error.code)

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        if request.path in _PLAIN:
            return web.Response(body=_PLAIN[request.path], content_type="application/json")
        parts = request.path.strip("/").split("/")
        if parts[0] == "api" and len(parts) >= 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) >= 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return self._roots(request.path)
        if not rest:
            return self._discovery(group, version)
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "")[:3]
        posted = _POSTED.get((group, plural))
        if posted is not None and request.method == "POST":
            return _json(go_object({**await _body(request), "status": _REVIEWS[posted.kind]}, posted), 201)
        resource = self._resources.get((group, version, plural))
        if resource is None:
            return _missing()
        if not name:
            return await self._on_collection(request, resource, namespace)
        return await self._on_object(request, resource, namespace, name, subresource)

    async def _on_collection(self, request: web.Request, resource: Resource, namespace: str) -> web.StreamResponse:
        if request.method == "POST":
            return _sent(self.store.create(resource, namespace, await _body(request)).body, 201)
        selected = _Selection(request.query, namespace)
        if request.method == "DELETE":
            options = await _body(request)
            for stored in self.store.all_of(resource)[0]:
                if selected.matches(stored):
                    self.store.delete(resource, stored.namespace, stored.name, options)
            return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
        if request.method != "GET":
            return _missing(405)
        if request.query.get("watch") in ("true", "1"):
            return await self._watch(request, resource, selected)
        return self._list(request, resource, selected)

    def _list(self, request: web.Request, resource: Resource, selected: _Selection) -> web.StreamResponse:
        everything, version = self.store.all_of(resource)
        items = [stored for stored in everything if selected.matches(stored)]
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or 0)
        if limit and len(items) > start + limit:
            metadata |= {"continue": str(start + limit), "remainingItemCount": len(items) - start - limit}
        shown = [stored.body for stored in items[start : start + limit if limit else None]]
        head = to_json({"kind": f"{resource.gvk.kind}List", "apiVersion": resource.gvk.api_version})[:-1]
        # An aggregated API server in Go sends a list that it has never appended to as nil.
        body = b"[" + b",".join(shown) + b"]" if shown else b"null" if not everything else b"[]"
        return _sent(head + b',"metadata":' + to_json(metadata) + b',"items":' + body + b"}")

    async def _on_object(
        self, request: web.Request, resource: Resource, namespace: str, name: str, subresource: str
    ) -> web.StreamResponse:
        method = request.method
        if method == "POST":
            return await self._post(request, resource, namespace, name, subresource)
        if subresource not in ("", "status", "approval", "ephemeralcontainers", "resize", "finalize"):
            return _missing()
        if method == "GET":
            return _sent(self.store.get(resource, namespace, name).body)
        if method == "PUT":
            value = await _body(request)
            return _sent(self.store.update(resource, namespace, name, value, subresource=subresource).body)
        if method == "PATCH":
            return await self._patch(request, resource, namespace, name, subresource)
        if method == "DELETE":
            last, gone = self.store.delete(resource, namespace, name, await _body(request))
            if not gone or resource.gvk.kind == "Pod":
                return _sent(last.body)
            details = {"name": name, "kind": resource.plural, "uid": last.value.get("metadata", {}).get("uid", "")}
            answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
            return _json(answer)
        return _missing(405)

    async def _post(
        self, request: web.Request, resource: Resource, namespace: str, name: str, subresource: str
    ) -> web.StreamResponse:
        value = await _body(request)
        if subresource == "binding":
            self.store.bind(resource, namespace, name, value["target"]["name"])
            return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)
        if subresource == "eviction":
            self.store.delete(resource, namespace, name, value.get("deleteOptions") or {})
            return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)
        if subresource == "token":
            until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
            status = {"token": f"token-of-{namespace}-{name}", "expirationTimestamp": until}
            gvk = GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")
            return _json(go_object({**value, "status": status}, gvk), 201)
        return _missing()

    async def _patch(
        self, request: web.Request, resource: Resource, namespace: str, name: str, subresource: str
    ) -> web.StreamResponse:
        kind = request.content_type
        patch = json.loads(await request.read())
        try:
            stored = self.store.get(resource, namespace, name)
        except Refused:
            if "apply" not in kind or subresource:
                raise
            return _sent(self.store.create(resource, namespace, patch).body, 201)
        try:
            if kind == "application/json-patch+json":
                value = json_patch(stored.value, patch)
            elif kind == "application/merge-patch+json" or resource.shape is None:
                value = merge_patch(stored.value, patch)
            else:
                value = strategic_patch(stored.value, patch, resource.shape)
        except (JSONPatchError, StrategicPatchError) as error:
            raise Refused(
                422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
            ) from error
        return _sent(self.store.update(resource, namespace, name, value, subresource=subresource).body)

    async def _watch(self, request: web.Request, resource: Resource, selected: _Selection) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        waker = asyncio.Event()
        self._wakers.add(waker)
        reached = self.store.version
        frames: list[bytes] = []
        if request.query.get("resourceVersion") in (None, "", "0"):
            everything, reached = self.store.all_of(resource)
            frames = [_frame("ADDED", stored.body) for stored in everything if selected.matches(stored)]
        else:
            reached = int(request.query["resourceVersion"])
        try:
            while not self._closing:
                waker.clear()
                changes = self.store.since(reached)
                frames += [frame for one in changes if (frame := selected.frame_of(one, resource)) is not None]
                reached = changes[-1].version if changes else reached
                await self._write(response, frames)
                frames = []
                try:
                    async with asyncio.timeout(self.bookmark_seconds):
                        await waker.wait()
                except TimeoutError:
                    if request.query.get("allowWatchBookmarks") in ("true", "1"):
                        frames.append(self._bookmark(resource, reached))
        except Refused as error:
            await self._write(response, [_frame("ERROR", to_json(_status(error)))])
        except ConnectionError:
            pass  # the client has closed the watch
        finally:
            self._wakers.discard(waker)
        return response

    async def _write(self, response: web.StreamResponse, frames: list[bytes]) -> None:
        """Write frames in chunks that end anywhere, also within a character or between two frames."""
        rest = b"".join(frames)
        while rest:
            size = self._chance.choice((1, 7, 100, 4096, len(rest)))
            await response.write(rest[:size])
            rest = rest[size:]
            await asyncio.sleep(0)

    def _bookmark(self, resource: Resource, version: int) -> bytes:
        empty = {"metadata": {"resourceVersion": str(max(version, 1))}}
        return _frame("BOOKMARK", to_json(go_object(empty, resource.gvk)))

    def _discovery(self, group: str, version: str) -> web.StreamResponse:
        served = [one for one in self._resources.values() if (one.gvk.group, one.gvk.version) == (group, version)]
        if not served:
            return _missing()
        resources = [
            {
                "name": one.plural,
                "singularName": one.gvk.kind.lower(),
                "namespaced": one.namespaced,
                "kind": one.gvk.kind,
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            }
            for one in served
        ]
        group_version = f"{group}/{version}" if group else version
        return _json(
            {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}
        )

    def _roots(self, path: str) -> web.StreamResponse:
        if path == "/api":
            return _json({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": None})
        if path != "/apis":
            return _missing()
        groups: dict[str, list[dict[str, str]]] = {}
        for group, version, _ in self._resources:
            known = {"groupVersion": f"{group}/{version}", "version": version}
            if group and known not in groups.setdefault(group, []):
                groups[group].append(known)
        listed = [
            {"name": group, "versions": versions, "preferredVersion": versions[0]} for group, versions in groups.items()
        ]
        return _json({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})

    async def serve(self, tls: ssl.SSLContext | None, started: threading.Event, stopping: threading.Event) -> None:
        """Serve until ``stopping`` is set."""
        self._loop = asyncio.get_running_loop()
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.url = f"{'https' if tls is not None else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        started.set()
        try:
            await asyncio.to_thread(stopping.wait)
        finally:
            self._closing = True
            self._wake_watches()
            await runner.cleanup()


class _Selection:
    """Selection of a resource's objects by a request."""

    def __init__(self, query: Mapping[str, str], namespace: str) -> None:
        self._namespace = namespace
        self._labels = parse_label_selector(query.get("labelSelector", ""))
        self._fields = parse_field_selector(query.get("fieldSelector", ""))

    def matches(self, stored: Stored) -> bool:
        """Return True if the object is one of them."""
        if self._namespace and stored.namespace != self._namespace:
            return False
        if not self._labels.matches(stored.labels):
            return False
        return self._fields.matches({term.field: _at(stored, term.field) for term in self._fields.terms})

    def frame_of(self, change: Change, resource: Resource) -> bytes | None:
        """The frame of a change: an object that leaves the selection is shown as deleted."""
        if change.resource != resource:
            return None
        was = change.before is not None and self.matches(change.before)
        if change.after is not None and self.matches(change.after):
            return _frame("MODIFIED" if was else "ADDED", change.after.body)
        if not was or change.before is None:
            return None
        return _frame("DELETED", (change.after or change.before).body)


def _at(stored: Stored, path: str) -> str:
    if path == "metadata.name":
        return stored.name
    if path == "metadata.namespace":
        return stored.namespace
    value: Any = stored.value
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def _frame(kind: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)


async def _body(request: web.Request) -> dict[str, Any]:
    raw = await request.read()
    value = json.loads(raw) if raw else {}
    return value if isinstance(value, dict) else {}


def _status(error: Refused) -> dict[str, Any]:
    details = {"details": error.details} if error.details else {}
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": str(error)}
    return {**head, "reason": error.reason, **details, "code": error.code}


def _sent(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body + b"\n", status=status, content_type="application/json")


def _json(value: Any, status: int = 200) -> web.Response:
    return _sent(to_json(value), status)


def _missing(status: int = 404) -> web.Response:
    return web.Response(text=f"{status} page not found\n" if status == 404 else "", status=status)


@contextmanager
def go_api_server(
    *,
    release: str = NEWEST,
    tls: bool = False,
    null_times: bool = True,
    newer_fields: Mapping[str, Any] = NEWER_FIELDS,
    without: tuple[str, ...] = (),
) -> Iterator[GoAPIServer]:
    """A running server with the namespaces that every cluster has.

    ``tls`` serves over TLS, where clients of Cathedra ask for a session first and are answered 404. ``null_times``
    writes ``creationTimestamp: null`` as releases before 1.34 do. ``newer_fields`` are added to metadata, spec and
    status of every object. Resources whose plurals are in ``without`` are not served.
    """
    store = ObjectStore(null_times=null_times, newer_fields=newer_fields, chance=random.Random(1))
    server = GoAPIServer(store, served_resources(release, without=without))
    context = _tls(server) if tls else None
    started, stopping = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(context, started, stopping)), daemon=True)
    thread.start()
    try:
        assert started.wait(_STARTED_SECONDS), "the server has not started"
        for name in ("default", "kube-system"):
            server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield server
    finally:
        stopping.set()
        thread.join(_STARTED_SECONDS)


def _tls(server: GoAPIServer) -> ssl.SSLContext:
    now = time.time()
    authority = Authority.make(now)
    pair = authority.server(("127.0.0.1", "localhost"), now)
    server.authority = authority.pair.certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile(prefix="cathedra-") as pem:
        pem.write(pair.certificate + b"\n" + pair.key)
        pem.flush()
        context.load_cert_chain(pem.name)
    return context
