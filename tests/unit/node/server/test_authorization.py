"""What a request to the node needs, and how long the API server's word about it counts."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.clock import run_virtual
from cathedra.node.server.access import (
    ALLOWED_SECONDS,
    REFUSED_SECONDS,
    RequestAuthorizer,
    subresources_of,
)
from tests.unit.node.fakes import NODE, NodeTransport

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


def test_what_was_decided_is_not_asked_again_for_a_while() -> None:
    async def body() -> None:
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

    run_virtual(body())


def test_a_verb_that_is_allowed_says_nothing_of_another() -> None:
    async def body() -> None:
        server = NodeTransport()
        server.grants.add(("alice", "get", "proxy"))
        authorizer = RequestAuthorizer(Client(server, clock=server.clock()), NODE, server.clock())
        await authorizer.authorize(ALICE, "GET", "/exec/ns/p/c")
        with pytest.raises(StatusError, match="verb=create"):
            await authorizer.authorize(ALICE, "POST", "/exec/ns/p/c")
        with pytest.raises(StatusError, match="Forbidden"):
            await authorizer.authorize(UserInfo(username="alice", groups=("others",)), "POST", "/exec/ns/p/c")

    run_virtual(body())


def test_an_api_server_that_cannot_be_asked_refuses_with_an_error() -> None:
    async def body() -> None:
        server = NodeTransport()
        server.failures.append(ConnectionError("gone"))
        authorizer = RequestAuthorizer(Client(server, clock=server.clock()), NODE, server.clock())
        with pytest.raises(StatusError, match="Authorization error") as caught:
            await authorizer.authorize(ALICE, "GET", "/pods")
        assert caught.value.code == 500

    run_virtual(body())
