"""Allowed and refused targets of proxied requests."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.http.proxying.targets import NodeEndpoint, ProxyTarget, target_of
from cathedra.apiserver.request import Call
from cathedra.kinds.served import all_definitions
from tests.unit.apiserver.asgi import ASGIClient, open_asgi
from tests.unit.kinds.objects import gates

NAMESPACE = "/api/v1/namespaces/default"


async def with_pod(client: ASGIClient, address: str) -> None:
    port = {"name": "w", "containerPort": 80}
    containers = [{"name": "a", "image": "i"}, {"name": "c", "image": "i", "ports": [port]}]
    ready = {"type": "Ready", "status": "True"}
    status = {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running", "conditions": [ready]}
    made = {"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"containers": containers}, "status": status}
    assert (await client("POST", f"{NAMESPACE}/pods", made)).status == 201
    assert (await client("PATCH", f"{NAMESPACE}/pods/p/status", {"status": status}, content_type=MERGE)).status == 200


async def with_service(client: ASGIClient, *ports: dict[str, Any], **spec: Any) -> None:
    wanted = {"selector": {"app": "x"}, "ports": list(ports), **spec}
    assert (await client("POST", f"{NAMESPACE}/services", {"metadata": {"name": "s"}, "spec": wanted})).status == 201


async def with_node(client: ASGIClient, address: str) -> None:
    status = {"addresses": [{"type": "InternalIP", "address": address}]}
    assert (await client("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})).status == 201
    assert (await client("PATCH", "/api/v1/nodes/n/status", {"status": status}, content_type=MERGE)).status == 200


MERGE = "application/merge-patch+json"


def found(client: ASGIClient, plural: str, name: str) -> NodeEndpoint | ProxyTarget:
    definition = next(d for d in all_definitions(gates("1.37")) if d.plural == plural and not d.group)
    namespace = "default" if definition.namespaced else ""
    version = definition.versions[0]
    user = UserInfo("u")
    call = Call.on(definition, version, user=user, verb="get", namespace=namespace, name=name)
    return target_of(client.server.context.registry, call)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("p", ProxyTarget("http", "10.0.0.7", "80")),
        ("p:8080", ProxyTarget("http", "10.0.0.7", "8080")),
        ("https:p:8443", ProxyTarget("https", "10.0.0.7", "8443")),
        ("https:p:", ProxyTarget("https", "10.0.0.7", "80")),
    ],
)
async def test_a_pod_is_asked_on_its_first_port_or_on_the_one_that_is_named(name: str, place: ProxyTarget) -> None:
    async with open_asgi() as client:
        await with_pod(client, "10.0.0.7")
        assert found(client, "pods", name) == place


@pytest.mark.parametrize(
    ("name", "port"), [("s:80", "80"), ("s:web", "80"), ("s:other", "9000"), ("http:s:81", "9000")]
)
async def test_a_service_leads_to_a_ready_pod_by_number_or_name_of_its_port(name: str, port: str) -> None:
    async with open_asgi() as client:
        await with_pod(client, "10.0.0.7")
        web = {"name": "web", "port": 80, "targetPort": "w"}
        await with_service(client, web, {"name": "other", "port": 81, "targetPort": 9000})
        assert found(client, "services", name) == ProxyTarget("http", "10.0.0.7", port)


async def test_a_node_is_its_agent_unless_another_port_is_named() -> None:
    async with open_asgi() as client:
        await with_node(client, "10.0.0.1")
        assert found(client, "nodes", "n") == NodeEndpoint("n", "10.0.0.1", 10250)
        assert found(client, "nodes", "https:n:10250") == NodeEndpoint("n", "10.0.0.1", 10250)
        assert found(client, "nodes", "https:n:9100") == ProxyTarget("https", "10.0.0.1", "9100")
        assert ProxyTarget("https", "fd00::1", "9100").origin == "https://[fd00::1]:9100"


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1", "fe80::1", "::ffff:127.0.0.1", ""]
)
async def test_nothing_is_asked_on_this_machine_or_on_the_link(address: str) -> None:
    async with open_asgi() as client:
        if address:
            await with_pod(client, address)
        else:
            bare = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            await client("POST", f"{NAMESPACE}/pods", bare)
        answer = await client("GET", f"{NAMESPACE}/pods/p:80/proxy/latest")
        assert (answer.status, answer.json["message"]) == (400, "address not allowed")
        await with_service(client, {"port": 80})
        assert (await client("GET", f"{NAMESPACE}/services/s/proxy/")).status == 503


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (f"{NAMESPACE}/pods/a:b:c/proxy/", 400, 'invalid pod request "a:b:c"'),
        (f"{NAMESPACE}/pods/ftp:p:1/proxy/", 400, 'invalid pod request "ftp:p:1"'),
        (f"{NAMESPACE}/pods/gone/proxy/", 404, 'pods "gone" not found'),
        (f"{NAMESPACE}/services/gone/proxy/", 404, 'services "gone" not found'),
        (f"{NAMESPACE}/services/s:9/proxy/", 503, 'no service port 9 found for service "s"'),
        (f"{NAMESPACE}/services/s/proxy/", 503, 'no endpoints available for service "s"'),
        (f"{NAMESPACE}/services/s:nameless/proxy/", 503, 'no endpoints available for service "s"'),
        ("/api/v1/nodes/gone/proxy/", 404, 'nodes "gone" not found'),
        ("/api/v1/nodes/:/proxy/", 400, 'invalid node request ":"'),
    ],
)
async def test_what_leads_nowhere_is_refused(path: str, status: int, message: str) -> None:
    async with open_asgi() as client:
        await with_service(client, {"port": 80})
        answer = await client("GET", path)
        assert (answer.status, answer.json["message"]) == (status, message)


async def test_a_service_with_another_name_leads_nowhere() -> None:
    async with open_asgi() as client:
        await with_service(client, {"port": 80}, type="ExternalName", externalName="metadata.example.com")
        assert (await client("GET", f"{NAMESPACE}/services/s/proxy/")).status == 503


async def test_a_simulated_node_is_named_instead_of_a_refused_connection() -> None:
    async with open_asgi() as client:
        await with_node(client, "10.0.0.1")
        info = {"containerRuntimeVersion": "simulated://1"}
        status = {"status": {"nodeInfo": info}}
        assert (await client("PATCH", "/api/v1/nodes/n/status", status, content_type=MERGE)).status == 200
        with pytest.raises(StatusError, match='node "n" is simulated: its containers do not run') as refused:
            found(client, "nodes", "n")
        assert refused.value.code == 400
