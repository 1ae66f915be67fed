"""Health is public, metrics are for users with the right to read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

from cathedra.api.core.core_v1 import ServiceAccount
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.rbac_v1 import PolicyRule
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.client.denials import Denials
from cathedra.client.leaderelection import LeaderElector
from cathedra.client.resources import SERVICEACCOUNTS
from cathedra.client.serviceaccounts import AccountTokens
from cathedra.cluster.process.health import HealthApplication, show_leadership
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, user

SCHEDULER = "system:kube-scheduler"


async def get(
    app: HealthApplication, path: str, token: str = "", method: str = "GET", query: str = ""
) -> tuple[int, str]:
    sent: list[Mapping[str, Any]] = []
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request"}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    await app(
        {"type": "http", "path": path, "query_string": query.encode(), "method": method, "headers": headers},
        receive,
        send,
    )
    return sent[0]["status"], sent[1]["body"].decode()


async def token_of(api: Guarded, name: str) -> str:
    await api.admin.resource(SERVICEACCOUNTS, "default").create(ServiceAccount(metadata=ObjectMeta(name=name)))
    return await AccountTokens(api.admin, "default", name, api.clock).current()


def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("example", "An example.", registry=made).set(3)
    return made


@run_with(guarded)
async def test_health_needs_no_credentials_and_metrics_do(api: Guarded) -> None:
    app = HealthApplication(api.of(SCHEDULER), registry(), api.clock)
    for path in ("/healthz", "/livez", "/readyz"):
        assert await get(app, path) == (200, "ok")
    assert await get(app, "/metrics") == (401, "Unauthorized\n")
    assert (await get(app, "/metrics", "forged"))[0] == 401
    assert (await get(app, "/healthz", method="POST"))[0] == 405


@run_with(guarded)
async def test_readyz_shows_rights_that_are_missing_if_asked_for_details(api: Guarded) -> None:
    denials = Denials(api.clock)
    app = HealthApplication(api.of(SCHEDULER), registry(), api.clock, denials)
    assert await get(app, "/readyz", query="verbose") == (200, "[+]ping ok\nreadyz check passed\n")
    right = 'User "u" cannot patch resource "pods/status" in API group ""'
    denials.note(forbidden(GroupResource("", "pods"), "p", right))
    code, text = await get(app, "/readyz", query="verbose")
    assert (code, text.splitlines()[1]) == (200, f"warning: {right}: refused 1 times, last 0 s ago")
    assert await get(app, "/readyz") == (200, "ok")


@run_with(guarded)
async def test_metrics_are_for_those_who_may_get_the_path(api: Guarded) -> None:
    app = HealthApplication(api.of(SCHEDULER), registry(), api.clock)
    reader, stranger = await token_of(api, "reader"), await token_of(api, "stranger")
    await api.role("metrics", PolicyRule(verbs=("get",), non_resource_urls=("/metrics",)))
    await api.bind("metrics", user("system:serviceaccount:default:reader"))
    code, text = await get(app, "/metrics", reader)
    assert (code, "example 3" in text) == (200, True)
    assert await get(app, "/metrics", stranger) == (
        403,
        'forbidden: User "system:serviceaccount:default:stranger" cannot get path "/metrics"\n',
    )


@run_with(guarded)
async def test_who_leads_is_a_metric(api: Guarded) -> None:
    shown = CollectorRegistry()
    show_leadership(shown, LeaderElector(api.admin, "kube-scheduler", "me", clock=api.clock))
    assert shown.get_sample_value("leader_election_master_status", {"name": "kube-scheduler"}) == 0.0
