"""The binary protocol, on the socket for processes of one cluster and in sessions over the port: what authorization
denies over HTTPS it denies there, verb by verb."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.config import ServeOptions
from cathedra.apiserver.routes import Route
from cathedra.apiserver.server import APIServer
from cathedra.client.http import tls_context
from cathedra.client.kubeconfig import Target
from cathedra.session.connection import ProtocolRefused, SessionConnection
from cathedra.session.protocol import RequestMessage, RequestOptions
from cathedra.session.server import listen_on_socket, serve_sessions
from cathedra.session.transport import UnixConnection, UpgradedConnection
from tests.security.walk import ANONYMOUS, EXPECTED, IDENTITIES, name_of, walked_server
from tests.unit.session.serving import served

OF_N1 = {"nodes": "n1", "leases": "n1", "pods": "p", "secrets": "s", "configmaps": "c", "resourceclaims": "r"}
NAMED = {"get", "update", "patch", "delete"}
UNPRIVILEGED = 65_534


def denied_by_the_table() -> dict[str, frozenset[str]]:
    """Row → the identities that are denied over HTTPS."""
    header, *lines = EXPECTED.read_text().splitlines()
    names, found = header.split(), {}
    for line in lines:
        *codes, row = line.split(maxsplit=len(names))
        found[row] = frozenset(name for name, code in zip(names, codes, strict=True) if code == "403")
    return found


def question(connection: SessionConnection, user: int, route: Route, verb: str) -> RequestMessage:
    """Return the request of a row as a message; writes are dry runs."""
    namespace = "kube-node-lease" if route.resource == "leases" else "default"
    named = verb in NAMED or route.subresource
    return RequestMessage(
        connection.next_id(),
        user,
        verb,
        route.group,
        route.version,
        route.resource,
        namespace if route.namespaced else "",
        OF_N1.get(route.resource, "x") if named else "",
        route.subresource,
        connection.form_of(dict),
        RequestOptions(dry_run=verb not in {"get", "list", "watch"}, patch_type="MERGE" if verb == "patch" else ""),
        b"{}",
    )


async def refusal(connection: SessionConnection, request: RequestMessage) -> int:
    """The code that a request is refused with; 0: it is not."""
    try:
        await connection.request(request)
    except StatusError as error:
        return error.code
    except ProtocolRefused:
        return 401
    return 0


Ways = Mapping[str, tuple[SessionConnection, int]]
"""A connection for each identity, and its number on it."""


@asynccontextmanager
async def over_socket(server: APIServer, folder: Path) -> AsyncIterator[Ways]:
    users = {name: user for name, user in IDENTITIES.items() if user is not None}
    await listen_on_socket(server, folder / "api.sock", {f"token of {name}": one for name, one in users.items()})
    connection = UnixConnection(folder / "api.sock")
    try:
        yield {name: (connection, connection.attach(f"token of {name}", "tests")) for name in IDENTITIES}
    finally:
        connection.close()


@asynccontextmanager
async def over_sessions(server: APIServer, folder: Path) -> AsyncIterator[Ways]:
    """A session for each identity that is known; the walked server knows their names as tokens."""
    serve_sessions(server)
    await server.serve(ServeOptions(pki=folder / "pki"))
    assert server.pki is not None
    target = Target(server.url, certificate_authority=server.pki.authority_certificate)
    tls = tls_context(target)
    ways = {}
    for name in IDENTITIES:
        connection = UpgradedConnection(
            server.url, tls, server_name=None, agent="tests", authorization=partial(bearer, name)
        )
        ways[name] = connection, connection.attach("", "tests")
    try:
        yield ways
    finally:
        for connection, _ in ways.values():
            connection.close()


async def bearer(name: str) -> str:
    """The credential of an identity."""
    return "" if name == ANONYMOUS else f"Bearer {name}"


@pytest.mark.parametrize("ways", [over_socket, over_sessions])
async def test_whom_a_route_denies_over_https_it_denies_here(
    tmp_path: Path, ways: Callable[[APIServer, Path], AbstractAsyncContextManager[Ways]]
) -> None:
    expected = denied_by_the_table()
    async with walked_server() as asgi, ways(asgi.server, tmp_path) as known:
        asked = 0
        for route in asgi.server.catalog.routes():
            for verb in set(route.verbs) - {"watch"}:
                for name in expected[name_of(route, verb)]:
                    connection, number = known[name]
                    code = await refusal(connection, question(connection, number, route, verb))
                    allowed = {401} if name == ANONYMOUS else {403, 404, 405}
                    assert code in allowed, f"{name_of(route, verb)} as {name}: {code}"
                    asked += 1
    assert asked > 3000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_of_the_machine_cannot_even_connect(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        with socket.socket(socket.AF_UNIX) as knocking:
            os.seteuid(UNPRIVILEGED)
            try:
                with pytest.raises(PermissionError):
                    knocking.connect(str(there.socket))
            finally:
                os.seteuid(0)
