"""Users by certificate, by token, or anonymous; and impersonation."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from cathedra.api.core.authentication_v1 import TokenRequest
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.authenticator import (
    CREDENTIAL_ID,
    PUBLIC_PATHS,
    Authenticator,
    StaticTokens,
    certificate_user,
)
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.asgi.application import RequestHeaders
from cathedra.certificates.authority import Authority
from cathedra.client.resources import SECRETS, SERVICEACCOUNTS
from tests.running import run_with
from tests.unit.apiserver.asgi import TOKEN, ASGIClient
from tests.unit.apiserver.guarded import Guarded, guarded, rule, service_account, user
from tests.unit.semantics.test_bootstraptokens import secret

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def scope(*headers: tuple[str, str], certificate: bytes | None = None) -> Any:
    pairs = [(name.encode(), value.encode()) for name, value in headers]
    return RequestHeaders(pairs), certificate


def der(pem: bytes) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def test_a_certificate_names_user_and_groups() -> None:
    pair = Authority.make(time.time()).client("alice", ("devs", "ops"), time.time())
    found = Authenticator().authenticate(*scope(certificate=der(pair.certificate)))
    assert found.name == "alice"
    assert set(found.groups) == {"devs", "ops", "system:authenticated"}
    assert found.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


def test_a_token_counts_more_than_a_certificate_and_a_bad_one_is_refused() -> None:
    pair = Authority.make(time.time()).client("alice", (), time.time())
    tokens = StaticTokens({"good": UserInfo("bob")})
    asks = Authenticator((tokens,))
    certificate = der(pair.certificate)
    assert asks.authenticate(*scope(("authorization", "Bearer good"), certificate=certificate)).name == "bob"
    with pytest.raises(StatusError, match="Unauthorized"):
        asks.authenticate(*scope(("authorization", "Bearer bad"), certificate=certificate))


def test_requests_without_credentials_are_anonymous_or_refused() -> None:
    assert Authenticator().authenticate(*scope()) == UserInfo("system:anonymous", ("system:unauthenticated",))
    asks = Authenticator(anonymous=PUBLIC_PATHS)
    assert asks.authenticate(*scope(), path="/readyz").name == "system:anonymous"
    for path in ("/api", "/readyz/ping", "/metrics", "/"):
        with pytest.raises(StatusError, match="Unauthorized"):
            asks.authenticate(*scope(), path=path)


async def whoami(asgi: ASGIClient, **headers: str) -> Any:
    answer = await asgi("POST", REVIEW, {}, **headers)
    return answer.json["status"]["userInfo"] if answer.status == 201 else answer.json["message"]


@run_with(guarded)
async def test_a_service_accounts_token_opens_the_door(api: Guarded) -> None:
    accounts = api.admin.resource(SERVICEACCOUNTS, "default")
    await accounts.create(service_account("bot"))
    issued: TokenRequest = await accounts.create_subresource("bot", "token", TokenRequest())
    asgi = ASGIClient(api.server)
    found = await whoami(asgi, user=issued.status.token)
    assert found["username"] == "system:serviceaccount:default:bot"
    await accounts.delete("bot")
    assert await whoami(asgi, user=issued.status.token) == "Unauthorized"


@run_with(guarded)
async def test_acting_as_others_needs_a_permission_for_each_part(api: Guarded) -> None:
    api.server.context.static_tokens.add({TOKEN: UserInfo("alice")})
    asgi = ASGIClient(api.server)
    as_bob = {"impersonate-user": "bob", "impersonate-group": "devs"}
    message = await whoami(asgi, **as_bob)
    assert message == (
        'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )
    await api.role("actor", rule("impersonate", "users", names="bob"))
    await api.bind("actor", user("alice"))
    assert 'groups "devs" is forbidden' in await whoami(asgi, **as_bob)
    await api.role("grouper", rule("impersonate", "groups", names="devs"))
    await api.bind("grouper", user("alice"))
    found = await whoami(asgi, **as_bob)
    assert (found["username"], found["groups"]) == ("bob", ["devs", "system:authenticated"])


@run_with(guarded)
async def test_acting_as_a_service_account_brings_its_groups(api: Guarded) -> None:
    api.server.context.static_tokens.add({TOKEN: UserInfo("root", ("system:masters",))})
    headers = {"impersonate-user": "system:serviceaccount:default:bot"}
    found = await whoami(ASGIClient(api.server), **headers)
    assert "system:serviceaccounts:default" in found["groups"]


@run_with(guarded)
async def test_impersonating_groups_alone_is_refused(api: Guarded) -> None:
    api.server.context.static_tokens.add({TOKEN: UserInfo("root", ("system:masters",))})
    assert "without impersonating a user" in await whoami(ASGIClient(api.server), **{"impersonate-group": "devs"})
    found = await whoami(ASGIClient(api.server), **{"impersonate-user": "system:anonymous"})
    assert "is forbidden" in found


NOW = 1_800_000_000.0


@pytest.mark.parametrize(("name", "groups"), [("alice", ("devs", "ops")), ("system:node:n1", ()), ("Ä", ("ö",))])
def test_the_common_name_is_the_user_and_each_organization_a_group(name: str, groups: tuple[str, ...]) -> None:
    pair = Authority.make(NOW).client(name, groups, NOW)
    der = x509.load_pem_x509_certificate(pair.certificate).public_bytes(serialization.Encoding.DER)
    user = certificate_user(der)
    assert (user.name, user.groups, user.uid) == (name, groups, "")
    assert user.extra == {CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}


BODY = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@run_with(guarded)
async def test_a_token_of_a_secret_is_a_bootstrapper_until_the_secret_is_gone(api: Guarded) -> None:
    secrets = api.admin.resource(SECRETS, "kube-system")
    await secrets.create(secret(auth_extra_groups="system:bootstrappers:workers"))
    asgi = ASGIClient(api.server)
    answer = await asgi("POST", REVIEW, BODY, user="abcdef.0123456789abcdef")
    assert answer.status == 201, answer.body
    assert answer.json["status"]["userInfo"] == {
        "username": "system:bootstrap:abcdef",
        "groups": ["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"],
    }
    await secrets.delete("bootstrap-token-abcdef")
    assert (await asgi("POST", REVIEW, BODY, user="abcdef.0123456789abcdef")).status == 401


@pytest.mark.parametrize(
    "token", ["abcdef.0123456789abcdeg", "abcdeg.0123456789abcdef", "abcdef", "../../x.0123456789abcdef"]
)
@run_with(guarded)
async def test_other_tokens_are_refused(api: Guarded, *, token: str) -> None:
    await api.admin.resource(SECRETS, "kube-system").create(secret())
    assert (await ASGIClient(api.server)("POST", REVIEW, BODY, user=token)).status == 401


@run_with(guarded)
async def test_a_token_review_knows_the_tokens_of_nodes_that_join(api: Guarded) -> None:
    await api.admin.resource(SECRETS, "kube-system").create(secret())
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    api.server.context.static_tokens.add({"sesame": UserInfo("admin", ("system:masters",))})
    asgi = ASGIClient(api.server)
    known = (await asgi("POST", path, {**review, "spec": {"token": "abcdef.0123456789abcdef"}})).json["status"]
    assert (known["authenticated"], known["user"]["username"]) == (True, "system:bootstrap:abcdef")
    other = (await asgi("POST", path, {**review, "spec": {"token": "abcdef.0123456789abcdeg"}})).json["status"]
    assert "authenticated" not in other
