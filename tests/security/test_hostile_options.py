"""Options of requests that make no sense are refused in Kubernetes' words; none ends in a 500 or changes anything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.apiserver.asgi import ASGIClient, open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
HUGE = 2**63


def unmarshal(what: str) -> str:
    return (
        f"couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type {TYPE_META}"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[1]", unmarshal("array")),
        (b"[]", unmarshal("array")),
        (b'"all"', unmarshal("string")),
        (b"5", unmarshal("number")),
        (b"true", unmarshal("bool")),
        (b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (b'{"kind":[1]}', ""),
        (b'{"kind":"DeleteOptions","apiVersion":7}', ""),
        (b'{"apiVersion":"a/b/c"}', "unexpected GroupVersion string: a/b/c"),
        (b'{"kind":"Pod","apiVersion":"v1"}', 'no kind "Pod" is registered for version "v1"'),
        (b'{"gracePeriodSeconds":' + b"9" * 5000 + b"}", ""),
        (b'{"gracePeriodSeconds":1e999}', ""),
        (b'{"gracePeriodSeconds":' + str(HUGE).encode() + b"}", ""),
        (b'{"preconditions":[1]}', ""),
        (b'{"preconditions":{"uid":[]}}', ""),
        (b'{"dryRun":"All"}', ""),
        (b'{"dryRun":["all"]}', "dryRun"),
        (b'{"propagationPolicy":"Sideways"}', "propagationPolicy"),
        (b"\xff\xfe", ""),
    ],
)
async def test_a_deletion_with_such_a_body_is_refused(body: bytes, message: str) -> None:
    async with open_asgi() as asgi:
        await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        refused = await asgi("DELETE", f"{MAPS}/a", body)
        assert refused.status in {400, 422}, refused.body
        assert message in refused.json["message"]
        refused = await asgi("DELETE", MAPS, body)
        assert refused.status in {400, 422}, refused.body
        assert (await asgi("GET", f"{MAPS}/a")).status == 200


@pytest.mark.parametrize("body", [b"null", b"{}", b'{"kind":null,"apiVersion":null}', b'{"unknown":[[]]}'])
async def test_a_body_that_says_nothing_is_no_body(body: bytes) -> None:
    async with open_asgi() as asgi:
        await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        assert (await asgi("DELETE", f"{MAPS}/a", body)).status == 200
        assert (await asgi("GET", f"{MAPS}/a")).status == 404


async def pod(asgi: ASGIClient, grace: Any = None) -> Any:
    """A pod on a node, which is given time to end."""
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    return await asgi("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})


@pytest.mark.parametrize("grace", [HUGE - 1, 10**12, 10**10, 300 * 10**9, -1, -HUGE])
async def test_a_pod_is_deleted_with_any_grace_that_is_a_number(grace: int) -> None:
    async with open_asgi() as asgi:
        assert (await pod(asgi)).status == 201
        deleted = await asgi("DELETE", f"{PODS}/p", {"gracePeriodSeconds": grace})
        assert deleted.status == 200, deleted.body
        assert deleted.json["metadata"]["deletionTimestamp"].endswith("Z")
        shown = await asgi("GET", f"{PODS}/p")
        assert shown.status == 200
        assert (await asgi("DELETE", f"{PODS}/p?gracePeriodSeconds=0")).status == 200


@pytest.mark.parametrize("seconds", [HUGE - 1, -HUGE, -1, 0])
async def test_a_watch_of_any_length_is_served(seconds: int) -> None:
    async with open_asgi() as asgi:
        watch = asyncio.create_task(asgi("GET", f"{PODS}?watch=1&timeoutSeconds={seconds}"))
        if seconds > 0:
            await asgi.settle()
            assert not watch.done()
            asgi.server.context.registry.close_watchers()
        assert (await watch).status == 200


@pytest.mark.parametrize("version", ["9" * 30, "-1", "1e3", "٣", "0x1", "1" * 100_000, str(2**64 - 1)])
async def test_no_resource_version_is_too_strange(version: str) -> None:
    from urllib.parse import quote

    async with open_asgi() as asgi:
        await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        for path in (MAPS, f"{MAPS}?limit=1", f"{MAPS}?resourceVersionMatch=Exact", f"{MAPS}?watch=1&timeoutSeconds=0"):
            mark = "&" if "?" in path else "?"
            answer = await asgi("GET", f"{path}{mark}resourceVersion={quote(version)}")
            assert b"panic" not in answer.body
            assert answer.status in {400, 500, 504, 200}
            assert not answer.body or answer.json["kind"] in {"Status", "ConfigMapList"}
        body = {"metadata": {"name": "a", "resourceVersion": version}}
        answer = await asgi("PUT", f"{MAPS}/a", body)
        assert answer.status in {409, 500}
        assert answer.json["kind"] == "Status"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json-patch+json", b'[{"op":"explode","path":"/spec/replicas"}]'),
        ("application/json-patch+json", b'[{"op":"replace","path":"","value":5}]'),
        ("application/json-patch+json", b'[{"op":"replace","path":"","value":null}]'),
        ("application/json-patch+json", b'[{"op":"remove","path":""}]'),
        ("application/json-patch+json", b'{"spec":{}}'),
        ("application/json-patch+json", b"[[]]"),
        ("application/json-patch+json", b"no JSON"),
        ("application/merge-patch+json", b"no JSON"),
        ("application/merge-patch+json", b"[1]"),
        ("application/merge-patch+json", b"null"),
        ("application/merge-patch+json", b'{"spec":5}'),
        ("application/merge-patch+json", b'{"spec":{"replicas":1e999}}'),
        ("application/merge-patch+json", b'{"spec":{"replicas":-1}}'),
        ("application/merge-patch+json", b'{"spec":{"replicas":99999999999999999999}}'),
        ("application/merge-patch+json", b'{"metadata":null,"spec":{"replicas":-2}}'),
        ("application/strategic-merge-patch+json", b'{"$patch":[]}'),
        ("application/strategic-merge-patch+json", b"\xff"),
        ("application/apply-patch+yaml", b"[1]"),
        ("application/apply-patch+yaml", b"{"),
        ("application/x-patch", b"{}"),
    ],
)
async def test_a_scale_cannot_be_patched_so(content_type: str, body: bytes) -> None:
    async with open_asgi() as asgi:
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        assert (await asgi("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})).status == 201
        query = "?fieldManager=t" if "apply" in content_type else ""
        refused = await asgi("PATCH", f"{DEPLOYMENTS}/d/scale{query}", body, content_type=content_type)
        assert refused.status in {400, 415, 422} or (refused.status, "$patch" in refused.body.decode()) == (500, True)
        assert refused.json["kind"] == "Status"
        assert b"panic" not in refused.body
        assert (await asgi("GET", f"{DEPLOYMENTS}/d/scale")).json["spec"]["replicas"] == 2
