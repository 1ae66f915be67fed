"""What the webhook answers to requests of every kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cathedra.driver.webhook.application import PATH, WebhookApplication
from tests.unit.driver.webhook.test_review import DRIVER, MODELS, parameters, review

JSON = "application/json"


async def asked(method: str, path: str, kind: str, *parts: bytes) -> tuple[int, bytes]:
    """Status and body of an answer; the request's body comes in parts."""
    sent: list[dict[str, Any]] = []
    left = list(parts)

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": left.pop(0) if left else b"", "more_body": bool(left)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"content-type", kind.encode())] if kind else []
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    await WebhookApplication(DRIVER, MODELS)(scope, receive, send)
    assert dict(sent[0]["headers"])[b"content-length"] == str(len(sent[1]["body"])).encode()
    return sent[0]["status"], sent[1]["body"]


@pytest.mark.parametrize(
    ("method", "path", "kind", "body", "code"),
    [
        ("GET", "/readyz", "", b"", 200),
        ("GET", "/other", "", b"", 404),
        ("GET", PATH, "", b"", 405),
        ("POST", PATH, "", b"{}", 415),
        ("POST", PATH, "text/plain", b"{}", 415),
        ("POST", PATH, JSON, b"{}", 400),
        ("POST", PATH, JSON, b" " * (8 * 1024 * 1024 + 1), 413),
    ],
)
async def test_other_requests_get_their_status(method: str, path: str, kind: str, body: bytes, code: int) -> None:
    assert (await asked(method, path, kind, body))[0] == code


async def test_a_review_in_several_parts_is_answered() -> None:
    config = [{"opaque": {"driver": DRIVER, "parameters": parameters(level=101)}}]
    claim = {"spec": {"devices": {"config": config}}}
    body = review({"uid": "u1", "resource": {"resource": "resourceclaims"}, "object": claim})
    code, answer = await asked("POST", PATH, f"{JSON}; charset=utf-8", body[:10], body[10:])
    response = json.loads(answer)["response"]
    assert (code, response["uid"], response["allowed"]) == (200, "u1", False)
