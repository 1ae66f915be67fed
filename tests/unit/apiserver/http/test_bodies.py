"""Bodies that are no object, and patches of what is missing: answered as Kubernetes answers them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.apiserver.asgi import open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"
PARSING = "couldn't get version/kind; json parse error: "


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"null", 200, ""),
        (b"{}", 200, ""),
        (b"[]", 400, f"{PARSING}json: cannot unmarshal array into Go value"),
        (b"[null]", 400, f"{PARSING}json: cannot unmarshal array into Go value"),
        (b"1", 400, f"{PARSING}json: cannot unmarshal number into Go value"),
        (b'"x"', 400, f"{PARSING}json: cannot unmarshal string into Go value"),
        (b" ", 400, f"{PARSING}unexpected end of JSON input"),
        (b'{"kind":"Foo","apiVersion":"v1"}', 400, 'no kind "Foo" is registered for version "v1"'),
    ],
)
async def test_options_of_deletions_are_an_object_or_nothing(body: bytes, status: int, message: str) -> None:
    async with open_asgi() as client:
        await client("POST", MAPS, {"metadata": {"name": "a"}})
        answer = await client("DELETE", f"{MAPS}/a", body)
        assert answer.status == status
        assert answer.json.get("message", "").startswith(message)
        left = await client("GET", f"{MAPS}/a")
        assert left.status == (404 if status == 200 else 200)


@pytest.mark.parametrize(
    ("kind", "patch", "status"),
    [
        ("json-patch", None, 200),
        ("json-patch", [], 200),
        ("json-patch", {}, 400),
        ("json-patch", [{"op": "test", "path": "/data/missing", "value": None}], 200),
        ("json-patch", [{"op": "test", "path": "/data/missing", "value": "x"}], 422),
        ("json-patch", [{"op": "replace", "path": "/data/missing", "value": "x"}], 200),
        ("json-patch", [{"op": "remove", "path": "/data/missing"}], 422),
        ("merge-patch", None, 400),
        ("merge-patch", [], 400),
        ("strategic-merge-patch", None, 200),
        ("strategic-merge-patch", [], 400),
    ],
)
async def test_patches_of_what_is_missing_or_null_mean_what_they_mean_in_go(kind: str, patch: Any, status: int) -> None:
    async with open_asgi() as client:
        await client("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        media = f"application/{kind}+json"
        answer = await client("PATCH", f"{MAPS}/a", json.dumps(patch).encode(), content_type=media)
        assert answer.status == status, answer.json
