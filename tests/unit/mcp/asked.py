"""The application over an API server with RBAC in process, its users, and a cluster with devices of two teams."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cathedra.api.core.core_v1 import Namespace, ServiceAccount
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.core.rbac_v1 import PolicyRule
from cathedra.api.struct import from_dict, replace
from cathedra.client.client import Client
from cathedra.client.resources import NAMESPACES, SERVICEACCOUNTS
from cathedra.client.serviceaccounts import AccountTokens
from cathedra.insight.reading.state import READ_KINDS, ClusterState
from cathedra.mcp.answering import AnswerLimits, UserAnswers
from cathedra.mcp.http import AnswerApplication
from tests.unit.apiserver.guarded import Guarded, account, guarded, rule
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_

ADVISOR = "system:serviceaccount:kube-system:cathedra-advisor"
TEAM_A, TEAM_B, ADMIN, STRANGER = "team-a", "team-b", "admin", "stranger"
BASIS = (
    rule("list", "nodes"),
    rule("list", "resourceslices deviceclasses devicetaintrules", "resource.k8s.io"),
)
TEAM = (rule("list", "pods"), rule("list", "resourceclaims", "resource.k8s.io"))
REVIEWS = (
    rule("create", "tokenreviews", "authentication.k8s.io"),
    rule("create", "subjectaccessreviews", "authorization.k8s.io"),
)


class FixedSource:
    """A followed cluster that does not change, unless a test replaces its state."""

    def __init__(self, state: ClusterState | None, history: Path | None = None) -> None:
        self.state, self.history, self.version = state, history, 0

    def snapshot(self) -> ClusterState | None:
        """Return the state."""
        return self.state

    def still(self) -> AbstractAsyncContextManager[None]:
        """Return a context of nothing: no thread computes here."""
        return nullcontext()


class Asking:
    """The application, and tokens of its users."""

    def __init__(self, api: Guarded, app: AnswerApplication, source: FixedSource) -> None:
        self.api, self.app, self.source = api, app, source
        self.tokens: dict[str, str] = {}

    async def user(self, name: str, *rules: PolicyRule, namespace: str = "") -> str:
        """Create a service account with rights, in the cluster or in a namespace."""
        if name not in self.tokens:
            made = ServiceAccount(metadata=ObjectMeta(name=name))
            await self.api.admin.resource(SERVICEACCOUNTS, "default").create(made)
            self.tokens[name] = await AccountTokens(self.api.admin, "default", name, self.api.clock).current()
        if rules:
            role = f"{name}-{namespace or 'cluster'}"
            await self.api.role(role, *rules)
            await self.api.bind(role, account(name, "default"), namespace=namespace)
        return self.tokens[name]

    async def request(
        self, path: str, who: str = "", *, method: str = "GET", body: bytes = b"", token: str = "", **query: str
    ) -> tuple[int, Any, Mapping[bytes, bytes]]:
        """Send a request. Return status, JSON and headers."""
        sent: list[Mapping[str, Any]] = []
        token = token or self.tokens.get(who, "")

        async def receive() -> Mapping[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        scope = {"type": "http", "path": path, "method": method, "headers": headers}
        await self.app({**scope, "query_string": urlencode(query).encode()}, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"]), dict(sent[0]["headers"])

    async def get(self, path: str, who: str = "", **query: str) -> tuple[int, Any]:
        """Send a GET request."""
        status, found, _ = await self.request(path, who, **query)
        return status, found

    async def post(self, path: str, who: str, **arguments: Any) -> tuple[int, Any]:
        """Send a POST request with arguments in JSON."""
        status, found, _ = await self.request(path, who, method="POST", body=json.dumps(arguments).encode())
        return status, found


def named(one: Any, name: str, namespace: str) -> Any:
    """An object under another name, in a namespace."""
    metadata = replace(one.metadata, name=name, namespace=namespace, uid=f"uid-{namespace}-{name}")
    return replace(one, metadata=metadata)


def running(name: str, namespace: str, device: str, on: str = "n1") -> list[KubeObject]:
    """A pod with a node, and its claim with a device."""
    results = [{"request": "secret-request", "driver": "gpu.example.com", "pool": on, "device": device}]
    parameters = {"driver": "gpu.example.com", "parameters": {"password": f"secret-of-{name}"}}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
    allocation = {
        "devices": {"results": results, "config": [{"source": "FromClaim", "requests": [], "opaque": parameters}]},
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }
    users = [{"resource": "pods", "name": name, "uid": f"uid-{namespace}-{name}"}]
    held = named(claim(name, exactly("secret-request")), name, namespace)
    held = replace(held, status=from_dict(type(held.status), {"allocation": allocation, "reservedFor": users}))
    entry = {"name": "gpu", "resourceClaimName": name}
    labels = {"project": f"secret-label-{name}"}
    holder = pod(name, resourceClaims=[entry], labels=labels, nodeName=on, status={"phase": "Running"})
    return [held, named(holder, name, namespace)]


def waiting(name: str, namespace: str, count: int = 1) -> list[KubeObject]:
    """A pod without a node, and its claim."""
    entry = {"name": "gpu", "resourceClaimName": name}
    return [
        named(claim(name, exactly(count=count)), name, namespace),
        named(pod(name, resourceClaims=[entry]), name, namespace),
    ]


def cluster() -> ClusterState:
    """A node with two devices, held by two teams, each of which has a pod that waits."""
    objects = [
        *(node("n1"), slice_("n1"), device_class("gpu")),
        *running("train-a", TEAM_A, "gpu-0"),
        *running("train-b", TEAM_B, "gpu-1"),
        *waiting("next-a", TEAM_A),
        *waiting("next-b", TEAM_B),
    ]
    state = ClusterState.of(objects, "the server", now=1_800_000_000.0)
    # A followed cluster has a store for each kind, also for those without objects.
    every = {kind.ref.type: {} for kind in READ_KINDS if not kind.gate}
    return dataclasses.replace(state, objects=every | dict(state.objects))


def asking(
    body: Callable[[Asking], Awaitable[Any]],
    *,
    limits: AnswerLimits | None = None,
    source: FixedSource | None = None,
    transport: Callable[[Client], Client] = lambda one: one,
) -> None:
    """Run ``body`` with the application: a user of each team, one with all rights, and one with none."""

    async def run(api: Guarded) -> None:
        followed = source or FixedSource(cluster())
        await api.role("reviews", *REVIEWS)
        await api.bind("reviews", account("cathedra-advisor", "kube-system"))
        client = transport(api.of(ADVISOR, "system:serviceaccounts"))
        app = AnswerApplication(UserAnswers(followed, client, api.clock, limits), client, api.clock)
        asked = Asking(api, app, followed)
        try:
            for team in (TEAM_A, TEAM_B):
                await api.admin.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name=team)))
                await asked.user(team, *BASIS)
                await asked.user(team, *TEAM, namespace=team)
            await asked.user(ADMIN, rule("list", "*", "*"))
            await asked.user(STRANGER)
            await body(asked)
        finally:
            app.answers.close()

    guarded(run)
