"""Nodes that join show bootstrap tokens."""

from __future__ import annotations

import pytest

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client.resources import SECRETS
from tests.unit.apiserver.asgi import ASGIClient
from tests.unit.apiserver.guarded import Guarded, guarded
from tests.unit.semantics.test_bootstraptokens import secret

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BODY = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def test_a_token_of_a_secret_is_a_bootstrapper_until_the_secret_is_gone() -> None:
    async def body(api: Guarded) -> None:
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

    guarded(body)


@pytest.mark.parametrize(
    "token", ["abcdef.0123456789abcdeg", "abcdeg.0123456789abcdef", "abcdef", "../../x.0123456789abcdef"]
)
def test_other_tokens_are_refused(token: str) -> None:
    async def body(api: Guarded) -> None:
        await api.admin.resource(SECRETS, "kube-system").create(secret())
        assert (await ASGIClient(api.server)("POST", REVIEW, BODY, user=token)).status == 401

    guarded(body)


def test_a_token_review_knows_the_tokens_of_nodes_that_join() -> None:
    async def body(api: Guarded) -> None:
        await api.admin.resource(SECRETS, "kube-system").create(secret())
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        api.server.add_tokens({"sesame": UserInfo("admin", ("system:masters",))})
        asgi = ASGIClient(api.server)
        known = (await asgi("POST", path, {**review, "spec": {"token": "abcdef.0123456789abcdef"}})).json["status"]
        assert (known["authenticated"], known["user"]["username"]) == (True, "system:bootstrap:abcdef")
        other = (await asgi("POST", path, {**review, "spec": {"token": "abcdef.0123456789abcdeg"}})).json["status"]
        assert "authenticated" not in other

    guarded(body)
