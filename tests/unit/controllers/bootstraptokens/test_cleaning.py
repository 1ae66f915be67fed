"""Tokens are deleted when they end."""

from __future__ import annotations

from datetime import UTC, datetime

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.resources import SECRETS
from tests.unit.apiserver.guarded import Guarded, guarded, refused
from tests.unit.controllers.bootstraptokens.running import controllers
from tests.unit.semantics.test_bootstraptokens import secret


def test_a_token_is_deleted_when_it_ends_and_other_secrets_stay() -> None:
    async def body(api: Guarded) -> None:
        secrets = api.admin.resource(SECRETS, "kube-system")
        ends = api.clock.now() + 100
        text = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        await secrets.create(secret(expiration=text))
        other = replace(
            secret(expiration=text), type="Opaque", metadata=ObjectMeta(name="other", namespace="kube-system")
        )
        await secrets.create(other)
        async with controllers(api):
            await api.clock.sleep(90)
            assert (await secrets.get("bootstrap-token-abcdef")).data["token-id"] == b"abcdef"
            await api.clock.sleep(20)
            await refused(secrets.get("bootstrap-token-abcdef"), 404)
            assert (await secrets.get("other")).type == "Opaque"

    guarded(body)
