"""Headers of any length are answered at once, also without credentials."""

from __future__ import annotations

import pytest

from tests.costs import costs_less_than
from tests.unit.apiserver.asgi import TOKEN, open_asgi

SIZE = 900_000
SECONDS = 0.5
VALUES = {
    "commas": "," * SIZE,
    "types": "a," * (SIZE // 2),
    "parameters": "a/b;" + "c=d;" * (SIZE // 4),
    "semicolons": ";" * SIZE,
    "a quality of many digits": "application/json;q=" + "9" * SIZE,
    "tables": "application/json;as=Table;v=v1;g=meta.k8s.io," * (SIZE // 47),
}


@pytest.mark.parametrize("header", ["accept", "accept_encoding", "user_agent", "content_type", "if_none_match"])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
async def test_a_long_header_takes_no_time(header: str, value: str) -> None:
    async with open_asgi() as asgi:
        await asgi("GET", "/apis")
        for user in ("", TOKEN):
            with costs_less_than(SECONDS):
                answer = await asgi("GET", "/api/v1/pods", user=user, **{header: value})
            assert answer.status < 500


async def test_an_accept_header_that_is_too_long_is_refused_in_json() -> None:
    async with open_asgi() as asgi:
        answer = await asgi("GET", "/api/v1/pods", accept="application/yaml," * 1000)
    assert answer.status == 400
    assert answer.json["message"] == "the Accept header is longer than 8192 bytes"
