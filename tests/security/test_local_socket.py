"""The socket for processes of one cluster: what authorization denies over HTTPS it denies there, verb by verb."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.routes import Route
from cathedra.client.local.messages import LocalRequest, Options
from cathedra.client.local.unix import LocalConnection
from tests.security.walk import ANONYMOUS, EXPECTED, IDENTITIES, name_of, walked_server
from tests.unit.apiserver.local.serving import served

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


def question(connection: LocalConnection, user: int, route: Route, verb: str) -> LocalRequest:
    """What a row asks, as a message; writes are dry runs."""
    namespace = "kube-node-lease" if route.resource == "leases" else "default"
    named = verb in NAMED or route.subresource
    return LocalRequest(
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
        Options(dry_run=verb not in {"get", "list", "watch"}, patch_type="MERGE" if verb == "patch" else ""),
        b"{}",
    )


async def refusal(connection: LocalConnection, request: LocalRequest) -> int:
    """The code that a request is refused with; 0: it is not."""
    try:
        await connection.request(request)
    except StatusError as error:
        return error.code
    return 0


async def test_whom_a_route_denies_over_https_it_denies_here(tmp_path: Path) -> None:
    expected = denied_by_the_table()
    async with walked_server() as asgi:
        users = {name: user for name, user in IDENTITIES.items() if user is not None}
        await asgi.server.serve_locally(tmp_path / "api.sock", {f"token of {name}": one for name, one in users.items()})
        connection = LocalConnection(tmp_path / "api.sock")
        numbers = {name: connection.attach(f"token of {name}", "tests") for name in IDENTITIES}
        asked = 0
        for route in asgi.server.catalog.routes():
            for verb in set(route.verbs) - {"watch"}:
                for name in expected[name_of(route, verb)]:
                    code = await refusal(connection, question(connection, numbers[name], route, verb))
                    allowed = {401} if name == ANONYMOUS else {403, 404, 405}
                    assert code in allowed, f"{name_of(route, verb)} as {name}: {code}"
                    asked += 1
        connection.close()
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
