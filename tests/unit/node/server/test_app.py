"""The node's routes, called in process: their answers and refusals."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.asgi.application import PEER_CERTIFICATE, PeerCertificate
from cathedra.client.client import Client
from cathedra.client.reviews import RequestAuthenticator
from cathedra.clock import run_virtual
from cathedra.node.metrics import NodeMetrics
from cathedra.node.pods.usage import UsageMeter
from cathedra.node.server.app import (
    ALLOWED_SECONDS,
    REFUSED_SECONDS,
    NodeApp,
    RequestAuthorizer,
    ServedNode,
    subresources_of,
)
from tests.running import on_virtual_clock
from tests.unit.node.fakes import NODE, NodeTransport, Setting, make_pod

CERTIFICATE = PeerCertificate(b"der", {"subject": ((("commonName", "operator"),),)})
DENIAL = "websocket.http.response"


def ask(
    path: str, *, kind: str = "http", query: str = "", extensions: tuple[str, ...] = (), protocols: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Return the response of a node with a running pod ``p`` and its container ``c``."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def body() -> None:
        server = NodeTransport()
        server.grants |= {("operator", "get", subresource) for subresource in ("proxy", "metrics")}
        async with Setting(server) as node:
            await node.create(make_pod("p"))
            await node.clock.sleep(5)
            manager = node.agent._manager
            assert manager is not None
            client = Client(server, clock=node.clock)
            app = NodeApp(
                ServedNode(
                    manager, node.runtime, UsageMeter(NODE, manager, node.runtime, node.clock), Path("/nowhere")
                ),
                authenticator=RequestAuthenticator(client, node.clock),
                authorizer=RequestAuthorizer(client, NODE, node.clock),
                metrics=NodeMetrics(node.clock),
                clock=node.clock,
            )
            scope = {
                "type": kind,
                "path": path,
                "query_string": query.encode(),
                "headers": [],
                "subprotocols": list(protocols),
                "extensions": {PEER_CERTIFICATE: CERTIFICATE, **{name: {} for name in extensions}},
            }
            await app(scope if kind == "websocket" else scope | {"method": "GET"}, receive, send)

    run_virtual(body())
    return sent


def test_pods_are_listed_with_their_kind() -> None:
    start, content = ask("/pods")
    listed = json.loads(content["body"])
    assert (start["status"], listed["kind"], listed["apiVersion"]) == (200, "PodList", "v1")
    assert [(pod["kind"], pod["metadata"]["name"]) for pod in listed["items"]] == [("Pod", "p")]


def test_health_and_metrics_are_text() -> None:
    assert ask("/healthz")[1]["body"] == b"ok"
    assert b"dra_" in ask("/metrics")[1]["body"]


@pytest.mark.parametrize(
    ("path", "query", "code", "text"),
    [
        ("/containerLogs/default/other/c", "", 404, 'pods "other" not found'),
        ("/containerLogs/default/p/x", "", 400, "container x is not valid for pod p"),
        ("/containerLogs/default/p/c", "tailLines=many", 400, "tailLines must be a number"),
        ("/containerLogs/default/p/c", "tailLines=-1", 400, "tailLines must be at least 0"),
        ("/containerLogs/default/p/c", "sinceSeconds=" + "9" * 30, 400, "sinceSeconds must be at most"),
        ("/containerLogs/default/p/c", "sinceTime=yesterday", 400, "yesterday"),
        ("/containerLogs/default/p/c", "previous=true", 400, 'previous terminated container "c" in pod "p" not found'),
        ("/containerLogs/default/p/c", "&".join(["a=b"] * 1001), 400, "the query cannot be read"),
        ("/exec/default/p/c", "", 400, "Upgrade request required"),
        ("/nothing", "", 404, "404 page not found"),
    ],
)
def test_a_refusal_is_a_line_of_text(path: str, query: str, code: int, text: str) -> None:
    start, content = ask(path, query=query)
    assert start["status"] == code
    assert text in content["body"].decode()


def test_a_refused_websocket_is_answered_like_a_request_where_the_server_can() -> None:
    path, query, protocols = "/exec/default/p/c", "stdout=1", ("v9.channel.k8s.io", "b")
    start, content = ask(path, query=query, kind="websocket", extensions=(DENIAL,), protocols=protocols)
    assert (start["type"], start["status"]) == (f"{DENIAL}.start", 403)
    assert b"requested protocol(s) are not supported: [v9.channel.k8s.io b]; supports [v5." in content["body"]
    (closed,) = ask(path, query=query, kind="websocket", protocols=protocols)
    assert (closed["type"], closed["code"]) == ("websocket.close", 1008)
    (closed,) = ask("/pods", kind="websocket")
    assert closed["reason"] == "no WebSocket is served"


def test_a_command_without_streams_is_refused_before_the_upgrade() -> None:
    for query in ("command=id", "command=id&tty=1"):
        start, content = ask("/exec/default/p/c", query=query, kind="websocket", extensions=(DENIAL,))
        assert start["status"] == 400
        assert content["body"] == b"you must specify at least 1 of stdin, stdout, stderr"


COMMANDS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io")
FORWARDING = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")


@pytest.mark.parametrize("action", ["exec", "attach"])
@pytest.mark.parametrize("protocol", [*COMMANDS, "base64.channel.k8s.io", None])
def test_every_sub_protocol_of_a_command_is_accepted_and_begins_with_an_empty_message(
    action: str, protocol: str | None
) -> None:
    path, offered = f"/{action}/default/p/c", (protocol,) if protocol else ()
    for query, channel in (("stdin=1&stdout=1&stderr=1", 1), ("stderr=1", 2), ("stdin=1", 3), ("tty=1&stderr=1", 3)):
        accepted, first, *_ = ask(path, query=query + "&command=id", kind="websocket", protocols=offered)
        assert accepted == {"type": "websocket.accept", "subprotocol": protocol}
        form = {"text": str(channel)} if "base64" in (protocol or "") else {"bytes": bytes([channel])}
        assert first == {"type": "websocket.send"} | form


@pytest.mark.parametrize("protocol", [*FORWARDING, "SPDY/3.1+portforward.k8s.io", None])
def test_every_sub_protocol_of_port_forward_is_accepted(protocol: str | None) -> None:
    offered = (protocol,) if protocol else ()
    accepted, *_ = ask("/portForward/default/p", query="port=1", kind="websocket", protocols=offered)
    assert accepted == {"type": "websocket.accept", "subprotocol": protocol}


def test_more_ports_than_there_are_channels_are_refused_before_the_upgrade() -> None:
    def forward(count: int) -> dict[str, Any]:
        query = "&".join(f"port={port}" for port in range(1, count + 1))
        path, protocols = "/portForward/default/p", ("v4.channel.k8s.io",)
        return ask(path, kind="websocket", query=query, extensions=(DENIAL,), protocols=protocols)[0]

    assert forward(128)["type"] == "websocket.accept"
    assert forward(129)["status"] == 400


# What a request to the node needs, and how long the API server's word about it counts.

ALICE = UserInfo(username="alice", groups=("devs",))


@pytest.mark.parametrize(
    ("path", "needed"),
    [
        ("/stats/summary", ("stats",)),
        ("/metrics", ("metrics",)),
        ("/metrics/cadvisor", ("metrics",)),
        ("/logs/syslog", ("log",)),
        ("/pods", ("pods", "proxy")),
        ("/runningPods/", ("pods", "proxy")),
        ("/healthz", ("healthz", "proxy")),
        ("/configz", ("configz", "proxy")),
        ("/containerLogs/ns/p/c", ("proxy",)),
        ("/exec/ns/p/c", ("proxy",)),
        ("//metrics", ("proxy",)),
        ("metrics", ("proxy",)),
        ("", ("proxy",)),
    ],
)
def test_a_path_needs_a_sub_resource_of_the_node(path: str, needed: tuple[str, ...]) -> None:
    assert subresources_of(path) == needed


def asked(server: NodeTransport) -> list[str]:
    return [name for _, resource, name in server.requests if resource == "subjectaccessreviews"]


@on_virtual_clock
async def test_what_was_decided_is_not_asked_again_for_a_while() -> None:
    server = NodeTransport()
    authorizer = RequestAuthorizer(Client(server, clock=server.clock()), NODE, server.clock())
    for _ in range(2):
        with pytest.raises(StatusError, match=r"Forbidden \(user=alice, verb=get"):
            await authorizer.authorize(ALICE, "GET", "/pods")
    assert asked(server) == ["pods", "proxy"]
    server.grants.add(("alice", "get", "pods"))
    await asyncio.sleep(REFUSED_SECONDS)
    await authorizer.authorize(ALICE, "GET", "/pods")
    server.grants.clear()
    await asyncio.sleep(ALLOWED_SECONDS - 1)
    await authorizer.authorize(ALICE, "GET", "/pods")
    await asyncio.sleep(1)
    with pytest.raises(StatusError, match="Forbidden"):
        await authorizer.authorize(ALICE, "GET", "/pods")


@on_virtual_clock
async def test_a_verb_that_is_allowed_says_nothing_of_another() -> None:
    server = NodeTransport()
    server.grants.add(("alice", "get", "proxy"))
    authorizer = RequestAuthorizer(Client(server, clock=server.clock()), NODE, server.clock())
    await authorizer.authorize(ALICE, "GET", "/exec/ns/p/c")
    with pytest.raises(StatusError, match="verb=create"):
        await authorizer.authorize(ALICE, "POST", "/exec/ns/p/c")
    with pytest.raises(StatusError, match="Forbidden"):
        await authorizer.authorize(UserInfo(username="alice", groups=("others",)), "POST", "/exec/ns/p/c")


@on_virtual_clock
async def test_a_right_of_one_user_is_not_given_to_another_of_the_same_name() -> None:
    """An authorizer behind the API server may decide by any field of the user: kubelet's reviews contain all."""
    server = NodeTransport()
    server.grants.add(("alice", "get", "pods"))
    authorizer = RequestAuthorizer(Client(server, clock=server.clock()), NODE, server.clock())
    await authorizer.authorize(ALICE, "GET", "/pods")
    server.grants.clear()
    values: dict[str, Any] = {"uid": "u-2", "groups": ("others",), "extra": {"scopes": ("none",)}}
    assert values.keys() | {"username"} == set(UserInfo.__struct_fields__)
    for field, value in values.items():
        with pytest.raises(StatusError, match="Forbidden"):
            await authorizer.authorize(replace(ALICE, **{field: value}), "GET", "/pods")
    await authorizer.authorize(ALICE, "GET", "/pods")


@on_virtual_clock
async def test_an_api_server_that_cannot_be_asked_refuses_with_an_error() -> None:
    server = NodeTransport()
    server.failures.append(ConnectionError("gone"))
    authorizer = RequestAuthorizer(Client(server, clock=server.clock()), NODE, server.clock())
    with pytest.raises(StatusError, match="Authorization error") as caught:
        await authorizer.authorize(ALICE, "GET", "/pods")
    assert caught.value.code == 500
