"""Long lists in objects: refused or accepted in time that grows with the request, in answers no larger than it."""

from __future__ import annotations

import json
import resource
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from cathedra.apiserver.registry.layout import MAX_VALUE
from cathedra.remembering import TEMPLATES
from tests.costs import costs_less_than
from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi

PODS = "/api/v1/namespaces/default/pods"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
SECONDS = 6.0
"""Of processor time on an idle machine. What these requests took before was 16 to 80 seconds."""
ROOM = 192 * 1024


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    async with open_asgi() as asgi:
        await asgi("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        account = {"metadata": {"name": "default", "namespace": "default"}}
        await asgi("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        yield asgi


async def sent(asgi: ASGIClient, method: str, path: str, body: Any, content_type: str = "application/json") -> Answer:
    """The answer to a body. It takes no more time than is in proportion, and a refusal is no larger than the body."""
    raw = json.dumps(body).encode()
    with costs_less_than(SECONDS):
        answer = await asgi(method, path, raw, content_type=content_type)
    assert answer.status < 400 or len(answer.body) < len(raw) + ROOM
    return answer


def pod(*, claims: Iterable[dict[str, Any]] = (), **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i", **container}], "resourceClaims": list(claims)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def variables(count: int, value: str) -> list[dict[str, str]]:
    return [{"name": f"n{number}", "value": value} for number in range(count)]


async def test_a_pod_with_ten_thousand_changed_variables(asgi: ASGIClient) -> None:
    assert (await sent(asgi, "POST", PODS, pod(env=variables(10_000, "a")))).status == 201
    answer = await sent(asgi, "PUT", f"{PODS}/p?dryRun=All", pod(env=variables(10_000, "b")))
    assert answer.status == 422
    assert '-     "Value": "a",\n+     "Value": "b",\n' in answer.json["message"]
    container = {"name": "c", "env": variables(30_000, "c")}
    answer = await sent(asgi, "PATCH", f"{PODS}/p", {"spec": {"containers": [container]}}, STRATEGIC)
    assert answer.status == 422
    answer = await sent(asgi, "PATCH", f"{PODS}/p", {"spec": {"containers": [{**container, "image": "i"}]}}, MERGE)
    assert answer.status == 422
    answer = await sent(asgi, "PATCH", f"{PODS}/p?fieldManager=m&force=true", pod(env=variables(10_000, "d")), APPLY)
    assert answer.status == 422


async def test_a_container_that_uses_twenty_thousand_claims(asgi: ASGIClient) -> None:
    used = [{"name": "a", "request": f"r{number}"} for number in range(20_000)]
    claims = [{"name": "a", "resourceClaimName": "x"}]
    body = pod(claims=claims, resources={"claims": used})
    assert (await sent(asgi, "POST", f"{PODS}?dryRun=All", body)).status == 201
    used = [{"name": f"n{number}"} for number in range(20_000)]
    assert (await sent(asgi, "POST", PODS, pod(claims=claims, resources={"claims": used}))).status == 422


async def test_eight_thousand_claims_and_as_many_uses_of_unknown_ones(asgi: ASGIClient) -> None:
    claims = [{"name": f"c{number}", "resourceClaimName": "x"} for number in range(8000)]
    used = [{"name": f"u{number}"} for number in range(8000)]
    answer = await sent(asgi, "POST", PODS, pod(claims=claims, resources={"claims": used}))
    assert answer.status == 422
    assert len(answer.body) < ROOM
    assert "more]" in answer.json["message"]


async def test_a_slice_of_sixteen_thousand_devices_in_place_of_a_full_one(asgi: ASGIClient) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "n1"}
    attributes = {f"a{number}": {"int": number} for number in range(32)}
    devices: list[dict[str, Any]] = [{"name": f"d{number}", "attributes": attributes} for number in range(128)]
    made = await sent(asgi, "POST", SLICES, {"metadata": {"name": "s"}, "spec": {**spec, "devices": devices}})
    assert made.status == 201
    many = [{"name": f"d{number}", "attributes": {"a": {"int": 1}}} for number in range(16_000)]
    answer = await sent(asgi, "PUT", f"{SLICES}/s", {**made.json, "spec": {**spec, "devices": many}})
    assert answer.status == 422
    assert answer.json["message"].endswith("spec.devices: Too many: 16000: must have at most 128 items")


async def test_an_object_that_outgrows_the_store_by_a_patch(asgi: ASGIClient) -> None:
    """Each request is below its own limit of 3 MiB, and each annotation below that of annotations."""
    rule = {"apiGroups": [""], "resources": [f"r{number}" for number in range(100_000)], "verbs": ["get"]}
    role = {"metadata": {"name": "r", "namespace": "default"}, "rules": [rule]}
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    assert (await sent(asgi, "POST", path, role)).status == 201
    answer = await sent(asgi, "PATCH", f"{path}/r", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert answer.status == 200
    operations = [{"op": "copy", "from": "/rules/0", "path": "/rules/-"}]
    answer = await sent(asgi, "PATCH", f"{path}/r", operations, "application/json-patch+json")
    assert (answer.status, answer.json["message"]) == (500, "etcdserver: request is too large")
    assert len((await asgi("GET", f"{path}/r")).body) < MAX_VALUE


async def test_large_pods_that_are_not_kept_leave_nothing_in_memory(asgi: ASGIClient) -> None:
    """What rules remember of a frozen object keeps the object: 36 MiB for each of these."""
    begun = _resident()
    for number in range(8):
        env = [{"name": f"n{number}x{place}", "value": "a"} for place in range(60_000)]
        assert (await sent(asgi, "POST", f"{PODS}?dryRun=All", pod(env=env))).status == 201
    assert _resident() - begun < 160


async def test_many_pods_of_middle_size_that_all_differ_leave_little_in_memory(asgi: ASGIClient) -> None:
    """Memos keep hundreds of specs, so each must be small, or they are emptied when many have been large."""
    begun = _resident()
    for number in range(TEMPLATES + 50):
        env = [{"name": f"n{number}x{place}", "value": "a"} for place in range(1000 if number % 8 == 0 else 200)]
        assert (await sent(asgi, "POST", f"{PODS}?dryRun=All", pod(env=env))).status == 201
    assert _resident() - begun < 160


def _resident() -> int:
    """MiB of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20
