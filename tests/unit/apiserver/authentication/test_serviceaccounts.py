"""Tokens of service accounts: user, audience and expiry."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.authentication_v1 import (
    BoundObjectReference,
    SelfSubjectReview,
    TokenRequest,
    TokenRequestSpec,
    TokenReview,
    TokenReviewSpec,
)
from cathedra.apiserver.authentication.serviceaccounts import ISSUER
from cathedra.apiserver.authentication.signing import BadToken, SigningKey
from cathedra.client.resources import NODES, PODS, SERVICEACCOUNTS, resource_ref
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, node, pod, refused, service_account

TOKEN_REVIEWS = resource_ref(TokenReview, "tokenreviews", namespaced=False)
SELF_REVIEWS = resource_ref(SelfSubjectReview, "selfsubjectreviews", namespaced=False)
EXTRA = "authentication.kubernetes.io/"


def request(*audiences: str, seconds: int | None = None, bound: Any = None) -> TokenRequest:
    spec = TokenRequestSpec(audiences=audiences, expiration_seconds=seconds, bound_object_ref=bound)
    return TokenRequest(spec=spec)


def bound_pod(name: str, uid: str = "") -> BoundObjectReference:
    return BoundObjectReference(kind="Pod", api_version="v1", name=name, uid=uid)


async def token(api: Guarded, wanted: TokenRequest) -> TokenRequest:
    made: TokenRequest = await api.admin.resource(SERVICEACCOUNTS, "default").create_subresource("bot", "token", wanted)
    return made


def claims_of(text: str) -> dict[str, Any]:
    body = text.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


async def account(api: Guarded) -> str:
    made = await api.admin.resource(SERVICEACCOUNTS, "default").create(service_account("bot"))
    return made.metadata.uid


@run_with(guarded)
async def test_a_token_is_its_accounts_until_it_expires(api: Guarded) -> None:
    uid = await account(api)
    issued = await token(api, request(seconds=600))
    claims = claims_of(issued.status.token)
    assert (claims["iss"], claims["aud"], claims["sub"]) == (ISSUER, [ISSUER], "system:serviceaccount:default:bot")
    assert claims["exp"] - claims["iat"] == 600
    known = api.server.context.tokens.user_of(issued.status.token)
    assert known is not None
    assert (known.name, known.uid) == ("system:serviceaccount:default:bot", uid)
    assert known.groups == ("system:serviceaccounts", "system:serviceaccounts:default")
    assert known.extra[f"{EXTRA}credential-id"] == (f"JTI={claims['jti']}",)
    await api.clock.sleep(659)  # Kubernetes' leeway for clocks that differ is a minute
    assert api.server.context.tokens.user_of(issued.status.token) is not None
    await api.clock.sleep(2)
    assert api.server.context.tokens.user_of(issued.status.token) is None


@run_with(guarded)
async def test_a_token_ends_with_its_account_and_is_not_its_successors(api: Guarded) -> None:
    await account(api)
    issued = await token(api, request())
    await api.admin.resource(SERVICEACCOUNTS, "default").delete("bot")
    await account(api)
    assert api.server.context.tokens.user_of(issued.status.token) is None


@run_with(guarded)
async def test_a_token_of_a_pod_says_which_pod_and_node_and_ends_with_the_pod(api: Guarded) -> None:
    await account(api)
    on = await api.admin.resource(NODES).create(node("n1"))
    pods = api.admin.resource(PODS, "default")
    made = await pods.create(pod("p", on="n1", service_account_name="bot"))
    issued = await token(api, request(bound=bound_pod("p")))
    known = api.server.context.tokens.user_of(issued.status.token)
    assert known is not None
    found = {key.removeprefix(EXTRA): value for key, value in known.extra.items()}
    assert found["pod-name"] == ("p",)
    assert found["pod-uid"] == (made.metadata.uid,)
    assert found["node-name"] == ("n1",)
    assert found["node-uid"] == (on.metadata.uid,)
    await pods.delete("p", grace_period_seconds=0)
    assert api.server.context.tokens.user_of(issued.status.token) is None


@run_with(guarded)
async def test_pods_own_tokens_outlive_their_hour_and_say_when_to_come_again(api: Guarded) -> None:
    await account(api)
    await api.admin.resource(PODS, "default").create(pod("p", service_account_name="bot"))
    issued = await token(api, request(seconds=3607, bound=bound_pod("p")))
    claims = claims_of(issued.status.token)
    assert claims["exp"] - claims["iat"] == 365 * 24 * 3600
    assert claims["kubernetes.io"]["warnafter"] == claims["iat"] + 3607
    assert issued.status.expiration_timestamp is not None
    assert issued.status.expiration_timestamp.micros // 1_000_000 == claims["iat"] + 3607


@run_with(guarded)
async def test_a_token_for_others_does_not_open_the_api(api: Guarded) -> None:
    await account(api)
    issued = await token(api, request("vault"))
    assert api.server.context.tokens.user_of(issued.status.token) is None
    reviews = api.admin.resource(TOKEN_REVIEWS)
    review = await reviews.create(TokenReview(spec=TokenReviewSpec(issued.status.token, ("vault", "x"))))
    assert (review.status.authenticated, review.status.audiences) == (True, ("vault",))
    review = await reviews.create(TokenReview(spec=TokenReviewSpec(issued.status.token)))
    assert (review.status.authenticated, review.status.error) == (False, "invalid bearer token")


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (request(seconds=5), 422, "may not specify a duration less than 10 minutes"),
        (request(seconds=1 << 33), 422, "may not specify a duration larger than 2^32 seconds"),
        (request(bound=bound_pod("none")), 404, 'pods "none" not found'),
        (request(bound=bound_pod("p", uid="other")), 409, "does not match the UID in record"),
        (request(bound=bound_pod("foreign")), 400, "to pod running with different serviceaccount name."),
        (
            request(bound=BoundObjectReference(kind="ConfigMap", api_version="v1", name="m")),
            400,
            "cannot bind token to object of type v1, Kind=ConfigMap",
        ),
    ],
)
@run_with(guarded)
async def test_what_cannot_be_issued_is_refused(api: Guarded, *, wanted: TokenRequest, code: int, message: str) -> None:
    await account(api)
    pods = api.admin.resource(PODS, "default")
    await pods.create(pod("p", service_account_name="bot"))
    await pods.create(pod("foreign"))
    assert message in await refused(token(api, wanted), code)


@run_with(guarded)
async def test_a_node_gets_tokens_for_its_own_pods_alone(api: Guarded) -> None:
    await account(api)
    made = await api.admin.resource(PODS, "default").create(pod("p", on="n1", service_account_name="bot"))
    mine = api.node("n1").resource(SERVICEACCOUNTS, "default")
    theirs = api.node("n2").resource(SERVICEACCOUNTS, "default")
    bound = request(bound=bound_pod("p", made.metadata.uid))
    await mine.create_subresource("bot", "token", bound)
    assert "not bound to a pod" in await refused(mine.create_subresource("bot", "token", request()))
    assert "no relationship found" in await refused(theirs.create_subresource("bot", "token", bound))


@run_with(guarded)
async def test_a_self_subject_review_names_the_user(api: Guarded) -> None:
    review = await api.of("alice", "devs").resource(SELF_REVIEWS).create(SelfSubjectReview())
    assert review.status.user_info.username == "alice"
    assert review.status.user_info.groups == ("devs", "system:authenticated")


def test_a_key_in_a_file_knows_its_tokens_again(tmp_path: Path) -> None:
    first = SigningKey(tmp_path / "sa.key")
    signed = first.sign({"a": 1})
    assert (tmp_path / "sa.key").stat().st_mode & 0o777 == 0o600
    assert SigningKey(tmp_path / "sa.key").verified(signed) == {"a": 1}
    assert SigningKey(tmp_path / "sa.key").jwk() == first.jwk()


@pytest.mark.parametrize(
    "spoil", [lambda t: t[:-4] + "AAAA", lambda t: t.replace(".", ".x", 1), lambda _: "a.b", str.upper]
)
def test_a_spoilt_token_names_no_user(spoil: Any) -> None:
    key = SigningKey()
    with pytest.raises(BadToken):
        key.verified(spoil(key.sign({"a": 1})))


def test_another_issuers_token_names_no_user() -> None:
    with pytest.raises(BadToken):
        SigningKey().verified(SigningKey().sign({"a": 1}))
