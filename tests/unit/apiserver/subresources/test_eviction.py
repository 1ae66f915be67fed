"""Eviction deletes a pod that its disruption budgets can spare (docs/spec/apimachinery.md §12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    async with open_asgi() as opened:
        yield opened


async def pod(asgi: ASGIClient, name: str = "p", *, phase: str = "Running", ready: str = "True") -> None:
    """A pod with label ``app=x`` in that phase."""
    body = {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await asgi("POST", PODS, body)).status == 201
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    await merge(asgi, f"{PODS}/{name}/status", {"status": status})


async def budget(asgi: ASGIClient, name: str = "b", *, allowed: int, healthy: int = 1, desired: int = 1) -> None:
    """Return a budget for ``app=x`` that allows a number of disruptions."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    made = await asgi("POST", BUDGETS, {"metadata": {"name": name}, "spec": spec})
    assert made.status == 201, made.body
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": 1,
        "observedGeneration": 1,
    }
    await merge(asgi, f"{BUDGETS}/{name}/status", {"status": status})


async def merge(asgi: ASGIClient, path: str, body: Any) -> None:
    answer = await asgi("PATCH", path, body, content_type="application/merge-patch+json")
    assert answer.status == 200, answer.body


async def evict(asgi: ASGIClient, name: str = "p", query: str = "", **fields: Any) -> Answer:
    return await asgi("POST", f"{PODS}/{name}/eviction{query}", {"metadata": {"name": name}, **fields})


async def exists(asgi: ASGIClient, name: str = "p") -> bool:
    return (await asgi("GET", f"{PODS}/{name}")).status == 200


async def test_a_pod_without_budget_is_deleted(asgi: ASGIClient) -> None:
    await pod(asgi)
    answer = await evict(asgi)
    assert (answer.status, answer.json["status"]) == (201, "Success")
    assert not await exists(asgi)


async def test_a_pod_that_ends_slowly_says_that_it_was_evicted(asgi: ASGIClient) -> None:
    await pod(asgi)
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await asgi("POST", f"{PODS}/p/binding", binding)).status == 201
    assert (await evict(asgi, query="?dryRun=All")).status == 201
    before = (await asgi("GET", f"{PODS}/p")).json
    assert "DisruptionTarget" not in {condition["type"] for condition in before["status"]["conditions"]}
    assert (await evict(asgi)).status == 201
    left = (await asgi("GET", f"{PODS}/p")).json
    assert "deletionTimestamp" in left["metadata"]
    told = {condition["type"]: condition for condition in left["status"]["conditions"]}["DisruptionTarget"]
    assert (told["status"], told["reason"], told["message"]) == (
        "True",
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )


async def test_an_eviction_is_charged_to_the_budget(asgi: ASGIClient) -> None:
    await pod(asgi)
    await budget(asgi, allowed=1)
    assert (await evict(asgi)).status == 201
    status = (await asgi("GET", f"{BUDGETS}/b")).json["status"]
    assert status["disruptionsAllowed"] == 0
    assert set(status["disruptedPods"]) == {"p"}


async def test_a_budget_without_disruptions_left_keeps_the_pod(asgi: ASGIClient) -> None:
    await pod(asgi)
    await budget(asgi, allowed=0)
    refused = await evict(asgi)
    assert (refused.status, refused.json["reason"]) == (429, "TooManyRequests")
    assert refused.json["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = refused.json["details"]["causes"]
    assert cause["message"] == "The disruption budget b needs 1 healthy pods and has 1 currently"
    assert await exists(asgi)


async def test_a_budget_that_is_not_up_to_date_asks_to_come_again(asgi: ASGIClient) -> None:
    await pod(asgi)
    await budget(asgi, allowed=1)
    await merge(asgi, f"{BUDGETS}/b", {"spec": {"minAvailable": 2}})
    refused = await evict(asgi)
    assert refused.status == 429
    assert refused.json["details"]["retryAfterSeconds"] == 10
    assert await exists(asgi)


async def test_two_budgets_are_one_too_many(asgi: ASGIClient) -> None:
    await pod(asgi)
    await budget(asgi, "a", allowed=1)
    await budget(asgi, "b", allowed=1)
    refused = await evict(asgi)
    assert refused.status == 500
    assert "more than one PodDisruptionBudget" in refused.json["message"]


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_pods_that_do_not_run_are_not_charged(asgi: ASGIClient, phase: str) -> None:
    await pod(asgi, phase=phase)
    await budget(asgi, allowed=0)
    assert (await evict(asgi)).status == 201
    assert not await exists(asgi)


async def test_an_unhealthy_pod_goes_while_enough_others_are_healthy(asgi: ASGIClient) -> None:
    await pod(asgi, ready="False")
    await budget(asgi, allowed=0, healthy=1, desired=1)
    assert (await evict(asgi)).status == 201


@pytest.mark.parametrize(("query", "fields"), [("?dryRun=All", {}), ("", {"deleteOptions": {"dryRun": ["All"]}})])
async def test_a_dry_run_deletes_and_charges_nothing(asgi: ASGIClient, query: str, fields: Any) -> None:
    await pod(asgi)
    await budget(asgi, allowed=1)
    assert (await evict(asgi, query=query, **fields)).status == 201
    assert await exists(asgi)
    assert (await asgi("GET", f"{BUDGETS}/b")).json["status"]["disruptionsAllowed"] == 1


async def test_an_eviction_is_of_the_pod_in_its_url(asgi: ASGIClient) -> None:
    await pod(asgi)
    refused = await asgi("POST", f"{PODS}/p/eviction", {"metadata": {"name": "q"}})
    assert (refused.status, refused.json["message"]) == (400, "name in URL does not match name in Eviction object")
    assert (await evict(asgi, "missing")).status == 404
