"""The walk over every route of the API server as every kind of user: the requests and their answers.

The rows are made of the routes that requests are dispatched by, so a new route, verb or path makes new rows. What must
come back stands in ``authorization_walk.txt``, one line a row, to be read and judged by people. After a change that is
meant, ``python -m tests.security.walk`` writes the file anew; the difference is what there is to review.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from cathedra.apiserver.authentication.serviceaccounts import service_account_user
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.routes import Route
from cathedra.client import resources
from cathedra.client.client import Client
from cathedra.clock import SystemClock
from cathedra.cluster.identity.permissions import driver_user, install_driver_permissions, node_user
from tests.unit.apiserver.asgi import TOKEN, Answer, ASGIClient, open_asgi

EXPECTED: Final = Path(__file__).parent / "authorization_walk.txt"
ANONYMOUS: Final = "anonymous"
GROUP: Final = "dra-team"
DRIVER: Final = "gpu.example.com"
IDENTITIES: Final[Mapping[str, UserInfo | None]] = {
    ANONYMOUS: None,
    "user": UserInfo("jane"),
    "group": UserInfo("carol", (GROUP,)),
    "node": node_user("n1"),
    "othernode": node_user("n2"),
    "account": service_account_user("default", "default", ""),
    "driver": driver_user(DRIVER, "n1"),
    "admin": UserInfo("root", ("system:masters",)),
}
"""Everybody who asks: without credentials; authenticated, with no rights; in a group that may do anything with
``resource.k8s.io``; the agent of the node that the objects belong to, and another's; a service account with no rights;
a driver with those of its installation; and an administrator, who shows what is behind the route."""

_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_UPGRADES: Final = frozenset({"exec", "attach", "portforward"})
_OF_N1: Final = {
    "nodes": "n1",
    "csinodes": "n1",
    "leases": "n1",
    "pods": "p",
    "secrets": "s",
    "configmaps": "c",
    "resourceclaims": "r",
    "resourceslices": "slice",
    "serviceaccounts": "default",
}
"""Names of objects that belong to the first node, or that a pod on it refers to."""


@dataclass(frozen=True, slots=True)
class Row:
    """One question, to be put as every identity."""

    name: str
    method: str
    path: str


def rows(routes: Iterable[Route], paths: Iterable[str]) -> Iterator[Row]:
    """Yield every request for these routes, and for paths outside of resources."""
    for path in paths:
        for method in ("GET", "POST"):
            yield Row(f"{method} {path}", method, path)
    for route in sorted(routes, key=lambda route: route.key):
        for verb in route.verbs:
            yield Row(name_of(route, verb), _METHODS[verb], _path(route, verb))
        if (route.group, route.resource) == ("", "pods") and route.subresource in _UPGRADES:
            yield Row(name_of(route, "upgrade"), "UPGRADE", _path(route, "get"))


def name_of(route: Route, verb: str) -> str:
    """The row of a verb on a route, as the table has it."""
    resource = f"{route.resource}/{route.subresource}" if route.subresource else route.resource
    return f"{verb} {route.group or 'core'}/{route.version} {resource}"


def _path(route: Route, verb: str) -> str:
    parts = ["", "apis", route.group, route.version] if route.group else ["", "api", route.version]
    if route.namespaced:
        parts += ["namespaces", "kube-node-lease" if route.resource == "leases" else "default"]
    parts.append(route.resource)
    if verb in {"get", "update", "patch", "delete"} or route.subresource:
        parts.append(_OF_N1.get(route.resource, "x"))
    if route.subresource:
        parts.append(route.subresource)
    query = {"watch": "?watch=true&timeoutSeconds=0", "list": "", "get": ""}.get(verb, "?dryRun=All")
    return "/".join(parts) + query


async def ask(asgi: ASGIClient, row: Row, identity: str) -> Answer:
    """The answer that an identity gets. Writes are dry runs; their body, if any, is empty."""
    user = "" if identity == ANONYMOUS else identity
    if row.method == "UPGRADE":
        return await asgi.upgrade(row.path, user=user)
    body = b"{}" if row.method in {"POST", "PUT", "PATCH"} else None
    kind = "application/merge-patch+json" if row.method == "PATCH" else "application/json"
    return await asgi(row.method, row.path, body, content_type=kind, user=user)


@asynccontextmanager
async def walked_server() -> AsyncIterator[ASGIClient]:
    """A server with every kind, on which nodes, a driver and the objects of a pod stand."""
    config = ServerConfig(authorization=True, runtime_config={"api/all": True})
    async with open_asgi(config) as asgi:
        asgi.server.context.static_tokens.add({name: user for name, user in IDENTITIES.items() if user is not None})
        client = Client(asgi.server.transport(), clock=SystemClock())
        await install_driver_permissions(client, DRIVER)
        rule = PolicyRule(verbs=("*",), api_groups=("resource.k8s.io",), resources=("*",))
        metadata = ObjectMeta(name=GROUP)
        await client.resource(resources.CLUSTERROLES).create(ClusterRole(metadata=metadata, rules=(rule,)))
        await client.resource(resources.CLUSTERROLEBINDINGS).create(
            ClusterRoleBinding(
                metadata=metadata,
                subjects=(Subject(kind="Group", api_group="rbac.authorization.k8s.io", name=GROUP),),
                role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=GROUP),
            )
        )
        for path, body in _OBJECTS.items():
            made = await asgi("POST", path, body, user=TOKEN)
            if made.status not in {201, 409}:
                raise AssertionError(f"{path}: {made.body!r}")
        yield asgi


_OBJECTS: Final[Mapping[str, Any]] = {
    "/api/v1/nodes": {"metadata": {"name": "n1"}},
    "/api/v1/namespaces/default/serviceaccounts": {"metadata": {"name": "default"}},
    "/api/v1/namespaces/default/secrets": {"metadata": {"name": "s"}},
    "/api/v1/namespaces/default/configmaps": {"metadata": {"name": "c"}},
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases": {"metadata": {"name": "n1"}},
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims": {
        "metadata": {"name": "r"},
        "spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}},
    },
    "/apis/resource.k8s.io/v1/resourceslices": {
        "metadata": {"name": "slice"},
        "spec": {
            "driver": DRIVER,
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d"}],
        },
    },
    "/api/v1/namespaces/default/pods": {
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": "n1",
            "serviceAccountName": "default",
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "r", "resourceClaimName": "r"}],
            "volumes": [
                {"name": "s", "secret": {"secretName": "s"}},
                {"name": "c", "configMap": {"name": "c"}},
            ],
        },
    },
}


async def walk() -> AsyncIterator[str]:
    """A line for each row: the code that each identity gets, then the question."""
    async with walked_server() as asgi:
        index = await asgi("GET", "/")
        paths = [
            *index.json["paths"],
            "/",
            "/version/",
            "/readyz/ping",
            "/no/such/path",
            "/api/session",
            "/api/v1/",
            "/openapi/v3/api/v1",
        ]
        yield " ".join(f"{name:>9}" for name in IDENTITIES)
        for row in rows(asgi.server.catalog.routes(), sorted(set(paths))):
            codes = [(await ask(asgi, row, identity)).status for identity in IDENTITIES]
            yield " ".join(f"{code:>9}" for code in codes) + f"  {row.name}"


async def _lines() -> list[str]:
    return [line async for line in walk()]


if __name__ == "__main__":
    EXPECTED.write_text("\n".join(asyncio.run(_lines())) + "\n")
