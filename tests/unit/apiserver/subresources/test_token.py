"""Token requests: what a token is bound to, and for how long (docs/spec/apimachinery.md §12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cathedra.apiserver.authentication.serviceaccounts import ISSUER
from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    async with open_asgi() as opened:
        assert (await opened("POST", ACCOUNTS, {"metadata": {"name": "bot"}})).status == 201
        yield opened


async def request(asgi: ASGIClient, name: str = "bot", query: str = "", **spec: Any) -> Answer:
    return await asgi("POST", f"{ACCOUNTS}/{name}/token{query}", {"spec": spec})


async def test_a_token_is_for_the_api_and_an_hour_unless_more_is_said(asgi: ASGIClient) -> None:
    made = await request(asgi)
    assert made.status == 201
    assert made.json["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None}
    assert made.json["status"]["token"].count(".") == 2


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (599, "may not specify a duration less than 10 minutes"),
        (-1, "may not specify a duration less than 10 minutes"),
        ((1 << 32) + 1, "may not specify a duration larger than 2^32 seconds"),
    ],
)
async def test_a_lifetime_has_bounds(asgi: ASGIClient, seconds: int, message: str) -> None:
    refused = await request(asgi, expirationSeconds=seconds)
    assert refused.status == 422
    assert f"spec.expirationSeconds: Invalid value: {seconds}: {message}" in refused.json["message"]


async def test_what_it_is_bound_to_must_be_there(asgi: ASGIClient) -> None:
    missing = await request(asgi, boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "s"})
    assert (missing.status, missing.json["message"]) == (404, 'secrets "s" not found')
    await asgi("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "s"}
    assert (await request(asgi, boundObjectRef=bound)).status == 201
    assert (await request(asgi, boundObjectRef=bound | {"uid": "another"})).status == 409
    strange = await request(asgi, boundObjectRef={"kind": "Service", "apiVersion": "v1", "name": "s"})
    assert (strange.status, strange.json["message"]) == (400, "cannot bind token to object of type v1, Kind=Service")


async def test_a_pod_of_another_account_is_not_bound_to(asgi: ASGIClient) -> None:
    spec = {"serviceAccountName": "other", "containers": [{"name": "c", "image": "i"}]}
    await asgi("POST", ACCOUNTS, {"metadata": {"name": "other"}})
    await asgi("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    refused = await request(asgi, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    assert refused.status == 400
    assert "to pod running with different serviceaccount name" in refused.json["message"]


async def test_a_dry_run_has_no_token(asgi: ASGIClient) -> None:
    made = await request(asgi, query="?dryRun=All")
    assert not (made.json.get("status") or {}).get("token")


async def test_an_account_that_is_not_there_has_none(asgi: ASGIClient) -> None:
    assert (await request(asgi, "missing")).status == 404
