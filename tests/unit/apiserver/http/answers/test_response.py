"""Answers, and how they go out."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden, too_many_requests
from cathedra.apiserver.http.answers.response import (
    Response,
    json_response,
    send_response,
    status_response,
    text_response,
)
from tests.unit.apiserver.asgi import open_asgi


async def sent(response: Response, *, head: bool = False) -> tuple[dict[bytes, bytes], bytes, list[Any]]:
    """Headers, body and messages."""
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    await send_response(send, response, audit_id=b"id", head=head)
    return dict(messages[0]["headers"]), b"".join(message["body"] for message in messages[1:]), messages


async def test_an_answer_says_how_long_it_is_and_which_audit_event_it_has() -> None:
    headers, body, _ = await sent(json_response({"a": 1}, 201))
    assert (headers[b"content-length"], headers[b"audit-id"]) == (b"7", b"id")
    assert headers[b"content-type"] == b"application/json"
    assert body == b'{"a":1}'


async def test_a_body_in_two_parts_is_one_body() -> None:
    headers, body, messages = await sent(Response(200, b"head", tail=b"tail"))
    assert (headers[b"content-length"], body) == (b"8", b"headtail")
    assert [message.get("more_body", False) for message in messages[1:]] == [True, False]


@pytest.mark.parametrize("response", [json_response({"a": 1}), Response(200, b"head", tail=b"tail")])
async def test_head_has_the_headers_of_the_answer_and_no_body(response: Response) -> None:
    full, _, _ = await sent(response)
    headers, body, messages = await sent(response, head=True)
    assert (headers, body, len(messages)) == (full, b"", 2)


def test_text_is_not_to_be_taken_for_anything_else() -> None:
    made = text_response("no\n", 404)
    assert (made.status, made.body) == (404, b"no\n")
    assert (b"x-content-type-options", b"nosniff") in made.headers


def test_a_failure_says_when_to_come_again() -> None:
    made = status_response(too_many_requests("slow down", 7))
    assert made.status == 429
    assert (b"retry-after", b"7") in made.headers


def test_a_refusal_is_not_to_be_taken_for_anything_else_either() -> None:
    made = status_response(forbidden(GroupResource("", "pods"), "p", "no"), ((b"warning", b"w"),))
    assert made.headers == ((b"warning", b"w"), (b"x-content-type-options", b"nosniff"))


MAPS = "/api/v1/namespaces/default/configmaps"


async def test_large_answers_are_small_for_clients_that_take_gzip() -> None:
    async with open_asgi() as asgi:
        for number in range(3):
            await asgi("POST", MAPS, {"metadata": {"name": f"m{number}"}, "data": {"k": "x" * 100_000}})
        plain = await asgi("GET", MAPS)
        small = await asgi("GET", MAPS, accept_encoding="gzip, br")
    assert plain.header("content-encoding") == ""
    assert small.header("content-encoding") == "gzip"
    assert json.loads(gzip.decompress(small.body)) == plain.json
    assert len(small.body) < len(plain.body) // 10
