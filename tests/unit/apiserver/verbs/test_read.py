"""Reading: what a continue token may be."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.asgi import open_asgi


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("!!", "illegal base64 data at input byte 0"),
        ("YWJjZ", "illegal base64 data at input byte 4"),
        ("abc", "invalid character 'i' looking for beginning of value"),
        ("e30", 'server does not recognize this encoded version ""'),
        ("eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mn0", "encoded start key empty (version meta.k8s.io/v1)"),
    ],
)
async def test_a_bad_continue_token_is_told_in_kubernetes_words(token: str, why: str) -> None:
    async with open_asgi() as asgi:
        answer = await asgi("GET", f"/api/v1/pods?continue={token}")
    assert answer.status == 400
    assert answer.json["message"] == f"invalid continue token: continue key is not valid: {why}"
