"""No token, however malformed, does more than be refused: not before it is known to be signed by this cluster."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.apiserver.authentication.signing import HEADER_LIMIT, TOKEN_LIMIT, BadToken, SigningKey
from tests.costs import costs_less_than
from tests.unit.apiserver.asgi import open_asgi

PODS = "/api/v1/namespaces/default/pods"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
SECONDS = 0.5


def part(text: str) -> str:
    """A part of a token."""
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def token(header: str, body: str = "{}", signature: str = "") -> str:
    """A token of these parts."""
    return f"{part(header)}.{part(body)}.{signature or 'A' * 86}"


def header(**changes: str) -> str:
    return json.dumps({"alg": "ES256", "kid": "k", **changes})


HOSTILE = {
    "a header of sixty thousand lists": token("[" * 60_000),
    "a header of as many lists as are looked at": token("[" * (HEADER_LIMIT * 3 // 4 - 1)),
    "a header of objects in one another": token('{"a":' * 60),
    "a body of lists": token(header(), "[" * 10_000),
    "a number of many digits": token('{"alg":' + "9" * 300 + "}"),
    "a million dots": "." * 1_000_000,
    "no parts": "..",
    "no base64": "§.§.§",
    "no JSON": token("header"),
    "no object": token("[]"),
    "no algorithm": token("{}"),
    "the algorithm that checks nothing": token(header(alg="none")),
    "an algorithm with the public key as its secret": token(header(alg="HS256")),
    "an algorithm that is no text": token('{"alg":[],"kid":{}}'),
    "a signature of no length": f"{part(header())}.{part('{}')}.",
    "a signature of the wrong length": token(header(), signature="AAAA"),
    "extensions that must be understood": token('{"alg":"ES256","kid":"k","crit":["b64"],"b64":false}'),
    "sixteen thousand letters": "x" * (TOKEN_LIMIT + 1),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_hostile_token_is_refused_at_once(hostile: str) -> None:
    async with open_asgi() as asgi:
        with costs_less_than(SECONDS):
            answer = await asgi("GET", PODS, user=hostile.encode("ascii", "replace").decode())
        assert answer.status == 401
        assert answer.json["reason"] == "Unauthorized"


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_review_of_it_says_that_it_is_invalid(hostile: str) -> None:
    async with open_asgi() as asgi:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": hostile}}
        answer = await asgi("POST", REVIEWS, body)
    assert (answer.status, answer.json["status"]) == (201, {"user": {}, "error": "invalid bearer token"})


KEY = SigningKey()
GOOD = KEY.sign({"sub": "a"})


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.sampled_from("AQgw_-."))
def test_a_token_with_one_letter_changed_is_no_token(position: int, letter: str) -> None:
    spoiled = f"{GOOD[:position]}{letter}{GOOD[position + 1 :]}"
    if spoiled == GOOD:
        return
    try:
        claims = KEY.verified(spoiled)
    except BadToken:
        return
    # The last letter of base64 has bits that mean nothing: the token is the same.
    assert position in {GOOD.index(".") - 1, len(GOOD) - 1}
    assert claims == {"sub": "a"}


@given(st.text())
def test_any_text_is_a_bad_token(text: str) -> None:
    with pytest.raises(BadToken):
        KEY.verified(text)
