"""The user of a request: certificates, reviewed tokens, and the lifetime of cached reviews."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from cathedra.api.status import StatusError
from cathedra.asgi.application import PEER_CERTIFICATE, PeerCertificate
from cathedra.client.client import Client
from cathedra.client.reviews import (
    TOKEN_SECONDS,
    ExpiringCache,
    RequestAuthenticator,
    certificate_user,
)
from tests.running import on_virtual_clock
from tests.unit.node.fakes import NodeTransport

SUBJECT = {"subject": ((("organizationName", "a"),), (("organizationName", "b"),), (("commonName", "carol"),))}


def scope(authorization: str = "", certificate: PeerCertificate | None = None) -> Mapping[str, Any]:
    headers = [(b"authorization", authorization.encode())] if authorization else []
    return {"headers": headers, "extensions": {PEER_CERTIFICATE: certificate}}


def reviews(server: NodeTransport) -> int:
    return sum(resource == "tokenreviews" for _, resource, _ in server.requests)


@on_virtual_clock
async def test_a_token_is_reviewed_once_in_two_minutes() -> None:
    server = NodeTransport()
    server.tokens["t"] = "dave"
    authenticator = RequestAuthenticator(Client(server, clock=server.clock()), server.clock())
    for _ in range(3):
        assert (await authenticator.user_of(scope("Bearer t"))).username == "dave"
    assert reviews(server) == 1
    del server.tokens["t"]
    await asyncio.sleep(TOKEN_SECONDS)
    with pytest.raises(StatusError, match="Unauthorized"):
        await authenticator.user_of(scope("bearer t"))
    assert reviews(server) == 2


@pytest.mark.parametrize("shown", ["", "Basic dDp0", "Bearer", "Bearer  ", "t"])
@on_virtual_clock
async def test_what_is_no_bearer_token_is_not_even_reviewed(*, shown: str) -> None:
    server = NodeTransport()
    authenticator = RequestAuthenticator(Client(server, clock=server.clock()), server.clock())
    with pytest.raises(StatusError, match="Unauthorized"):
        await authenticator.user_of(scope(shown))
    assert reviews(server) == 0


@on_virtual_clock
async def test_an_api_server_that_cannot_be_asked_is_believed_by_no_cache() -> None:
    server = NodeTransport()
    server.tokens["t"] = "dave"
    server.failures.append(ConnectionError("gone"))
    authenticator = RequestAuthenticator(Client(server, clock=server.clock()), server.clock())
    with pytest.raises(StatusError, match="Unauthorized"):
        await authenticator.user_of(scope("Bearer t"))
    assert (await authenticator.user_of(scope("Bearer t"))).username == "dave"


@on_virtual_clock
async def test_a_certificate_counts_before_a_token() -> None:
    server = NodeTransport()
    authenticator = RequestAuthenticator(Client(server, clock=server.clock()), server.clock())
    certificate = PeerCertificate(b"der", SUBJECT)
    assert (await authenticator.user_of(scope("Bearer t", certificate))).username == "carol"
    assert reviews(server) == 0


def test_a_certificate_names_user_and_groups() -> None:
    user = certificate_user(SUBJECT, b"der")
    assert user is not None
    assert (user.username, user.groups) == ("carol", ("a", "b", "system:authenticated"))
    assert user.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
    assert certificate_user({"subject": SUBJECT["subject"][:2]}, b"der") is None


@on_virtual_clock
async def test_a_full_cache_drops_what_came_first() -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(NodeTransport().clock(), 2)
    for number, key in enumerate("abc"):
        cache.put(key, number, 10)
    assert [cache.get(key) for key in "abc"] == [None, 1, 2]


@on_virtual_clock
async def test_a_certificate_that_has_ended_names_nobody() -> None:
    server = NodeTransport()
    clock = server.clock()
    authenticator = RequestAuthenticator(Client(server, clock=clock), clock)
    shown = PeerCertificate(b"der", SUBJECT, clock.now() + 60)
    assert (await authenticator.user_of(scope(certificate=shown))).username == "carol"
    await asyncio.sleep(61)
    with pytest.raises(StatusError, match="Unauthorized"):
        await authenticator.user_of(scope(certificate=shown))
