"""A server behind an APIService, over real TLS: the user in its requests, and the forwarding of its responses."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from cathedra.api.core.core_v1 import Container, Pod, PodCondition, PodSpec, Service, ServicePort, ServiceSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.bootstrap.apiservices import APIServiceKeeper
from cathedra.apiserver.config import ServeOptions
from cathedra.certificates.authority import Authority
from cathedra.client.client import Client
from cathedra.client.resources import PODS, SERVICES
from cathedra.clock import SystemClock
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
LISTED = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "metrics.k8s.io/v1beta1",
    "resources": [
        {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": ["get", "list"]},
        {"name": "nodes/status", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": ["get"]},
    ],
}


class Backend:
    """The aggregated server, with the requests that it received and their client certificates."""

    def __init__(self) -> None:
        self.port = 0
        self.bundle = b""
        self.asked: list[web.Request] = []
        self.certificates: list[Any] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        assert request.transport is not None
        self.certificates.append(request.transport.get_extra_info("peercert"))
        if request.path == "/apis/metrics.k8s.io/v1beta1":
            return web.json_response(LISTED)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            async for message in socket:
                await socket.send_str(message.data.upper())
            return socket
        if "watch" in request.query:
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(b'{"type":"ADDED"}\n')
            await stream.write(b'{"type":"MODIFIED"}\n')
            return stream
        if request.method == "POST":
            return web.json_response({"echo": (await request.read()).decode()}, status=201)
        return web.json_response({"kind": "NodeMetricsList", "items": []}, headers={"X-Own": "yes"})


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[Backend]:
    made = Backend()
    authority = Authority.make(time.time())
    pair = authority.server(("metrics.kube-system.svc",), time.time())
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    front = PKI(tmp_path / "pki", time.time()).front_proxy()
    context.load_verify_locations(cadata=front.authority.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    made.port = runner.addresses[0][1]
    made.bundle = authority.pair.certificate
    yield made
    await runner.cleanup()


def service(bundle: bytes) -> dict[str, Any]:
    """The APIService of the backend."""
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "caBundle": base64.b64encode(bundle).decode(),
        "service": {"namespace": "kube-system", "name": "metrics"},
    }
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": spec,
    }


@pytest.fixture
async def asgi(backend: Backend, tmp_path: Path) -> AsyncIterator[ASGIClient]:
    async with open_asgi(clock=SystemClock()) as made:
        await made.server.serve(ServeOptions(pki=tmp_path / "pki"))
        answer = await made("POST", API_SERVICES, service(backend.bundle))
        assert answer.status == 201, answer.body
        yield made


async def run_backend(asgi: ASGIClient, backend: Backend) -> None:
    """A service, and a ready pod behind it whose port is the backend's."""
    client = Client(asgi.server.transport(), clock=SystemClock())
    ports = (ServicePort(port=443, target_port=backend.port),)
    spec = ServiceSpec(selector={"app": "metrics"}, ports=ports)
    await client.resource(SERVICES, "kube-system").create(Service(metadata=ObjectMeta(name="metrics"), spec=spec))
    pods = client.resource(PODS, "kube-system")
    pod = Pod(
        metadata=ObjectMeta(name="m", labels={"app": "metrics"}),
        spec=PodSpec(containers=(Container(name="c", image="i"),)),
    )
    made = await pods.create(pod)
    ready = PodCondition(type="Ready", status="True")
    await pods.update_status(
        replace(made, status=replace(made.status, phase="Running", pod_ip="127.0.0.1", conditions=(ready,)))
    )


async def look(asgi: ASGIClient) -> None:
    """Probe the servers, as every half minute."""
    server = asgi.server
    await APIServiceKeeper(server.context, server.catalog, server.aggregated.probe).reconcile()


async def available(asgi: ASGIClient) -> tuple[str, str, str]:
    (condition,) = (await asgi("GET", f"{API_SERVICES}/v1beta1.metrics.k8s.io")).json["status"]["conditions"]
    return condition["status"], condition["reason"], condition["message"]


async def test_a_request_is_passed_on_with_its_user_and_the_servers_certificate(
    asgi: ASGIClient, backend: Backend
) -> None:
    await run_backend(asgi, backend)
    asgi.server.context.static_tokens.add({"j": UserInfo("jane", ("devs", "ops"), "u1", {"scope/x": ("a", "b")})})
    answer = await asgi(
        "GET",
        f"{NODES}?limit=5",
        user="j",
        **{"x-remote-user": "root", "x_remote_user": "root", "x_remote-group": "system:masters"},
    )
    assert (answer.status, answer.header("x-own")) == (200, "yes")
    assert answer.json["kind"] == "NodeMetricsList"
    (asked,) = backend.asked
    assert asked.path_qs == f"{NODES}?limit=5"
    assert asked.headers.getall("X-Remote-User") == ["jane"]
    assert asked.headers.getall("X-Remote-Group") == ["devs", "ops", "system:authenticated"]
    assert asked.headers.getall("X-Remote-Extra-scope%2Fx") == ["a", "b"]
    assert "Authorization" not in asked.headers
    assert not [name for name in asked.headers if "_" in name]
    assert (("commonName", "front-proxy-client"),) in backend.certificates[0]["subject"]


async def test_bodies_go_there_and_streams_come_back(asgi: ASGIClient, backend: Backend) -> None:
    await run_backend(asgi, backend)
    posted = await asgi("POST", NODES, {"a": 1})
    assert (posted.status, posted.json) == (201, {"echo": '{"a": 1}'})
    watched = await asgi("GET", f"{NODES}?watch=true")
    assert watched.body.splitlines() == [b'{"type":"ADDED"}', b'{"type":"MODIFIED"}']


async def test_the_group_is_discovered_with_what_its_server_lists(asgi: ASGIClient, backend: Backend) -> None:
    await run_backend(asgi, backend)
    await look(asgi)
    assert await available(asgi) == ("True", "Passed", "all checks passed")
    assert "metrics.k8s.io" in [group["name"] for group in (await asgi("GET", "/apis")).json["groups"]]
    assert (await asgi("GET", "/apis/metrics.k8s.io")).json["preferredVersion"]["version"] == "v1beta1"
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = (await asgi("GET", "/apis", accept=aggregated)).json["items"]
    (found,) = [group for group in groups if group["metadata"].get("name") == "metrics.k8s.io"]
    (nodes,) = found["versions"][0]["resources"]
    assert (nodes["resource"], nodes["scope"], nodes["responseKind"]["kind"]) == ("nodes", "Cluster", "NodeMetrics")
    assert [below["subresource"] for below in nodes["subresources"]] == ["status"]


async def test_who_may_not_ask_here_is_not_passed_on(asgi: ASGIClient, backend: Backend) -> None:
    assert (await asgi("GET", NODES, user="unknown")).status == 401
    assert backend.asked == []


async def test_a_server_that_is_not_there_is_unavailable_and_its_service_says_why(
    asgi: ASGIClient, backend: Backend
) -> None:
    answer = await asgi("GET", NODES)
    assert answer.status == 503
    assert answer.json["message"] == 'error trying to reach service: service "metrics" not found'
    await look(asgi)
    missing = 'service/metrics in "kube-system" is not present'
    assert await available(asgi) == ("False", "ServiceNotFound", missing)
    client = Client(asgi.server.transport(), clock=SystemClock())
    spec = ServiceSpec(selector={"app": "metrics"}, ports=(ServicePort(port=443),))
    await client.resource(SERVICES, "kube-system").create(Service(metadata=ObjectMeta(name="metrics"), spec=spec))
    await look(asgi)
    assert (await available(asgi))[:2] == ("False", "MissingEndpoints")


async def test_a_certificate_of_another_authority_is_not_believed(asgi: ASGIClient, backend: Backend) -> None:
    await run_backend(asgi, backend)
    another = service(Authority.make(time.time()).pair.certificate)["spec"]
    present = (await asgi("GET", f"{API_SERVICES}/v1beta1.metrics.k8s.io")).json
    assert (await asgi("PUT", f"{API_SERVICES}/v1beta1.metrics.k8s.io", present | {"spec": another})).status == 200
    assert (await asgi("GET", NODES)).status == 503
    await asyncio.wait_for(look(asgi), 120)
    status, reason, message = await available(asgi)
    assert (status, reason) == ("False", "FailedDiscoveryCheck")
    assert message.endswith("tls: failed to verify certificate: x509: certificate signed by unknown authority")


async def test_without_its_object_the_group_is_gone(asgi: ASGIClient, backend: Backend) -> None:
    await asgi("DELETE", f"{API_SERVICES}/v1beta1.metrics.k8s.io")
    assert (await asgi("GET", NODES)).status == 404
    assert "metrics.k8s.io" not in [group["name"] for group in (await asgi("GET", "/apis")).json["groups"]]


async def test_a_websocket_is_passed_on_with_its_user(asgi: ASGIClient, backend: Backend) -> None:
    await run_backend(asgi, backend)
    asgi.server.context.static_tokens.add({"j": UserInfo("jane", ("system:masters",))})
    url = f"{asgi.server.url}{NODES}/x?a=b"
    async with (
        aiohttp.ClientSession(headers={"Authorization": "Bearer j"}) as session,
        session.ws_connect(url, ssl=False) as socket,
    ):
        await socket.send_str("hello")
        assert await socket.receive_str() == "HELLO"
        await socket.close()
    (asked,) = backend.asked
    assert asked.path_qs == f"{NODES}/x?a=b"
    assert asked.headers.getall("X-Remote-User") == ["jane"]
    assert "Authorization" not in asked.headers
    assert (("commonName", "front-proxy-client"),) in backend.certificates[0]["subject"]


async def test_an_upgrade_is_asked_for_and_its_answer_handed_on(asgi: ASGIClient, backend: Backend) -> None:
    await run_backend(asgi, backend)
    asgi.server.context.static_tokens.add({"j": UserInfo("jane", ("system:masters",))})
    headers = {"Authorization": "Bearer j", "Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{asgi.server.url}{NODES}/x", ssl=False) as answer,
    ):
        assert (answer.status, await answer.json()) == (201, {"echo": ""})
    (asked,) = backend.asked
    assert asked.headers["Upgrade"] == "SPDY/3.1"
    assert asked.headers.getall("X-Remote-User") == ["jane"]


async def test_a_websocket_to_a_server_that_is_not_there_is_refused(asgi: ASGIClient) -> None:
    asgi.server.context.static_tokens.add({"j": UserInfo("jane", ("system:masters",))})
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer j"}) as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{asgi.server.url}{NODES}/x", ssl=False)
    assert refused.value.status == 503
