"""Tokens sign what a joining node reads first."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

from cathedra.api.core.core_v1 import ConfigMap, Secret
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.resources import CONFIGMAPS, SECRETS
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, refused
from tests.unit.controllers.bootstraptokens.running import controllers
from tests.unit.semantics.test_bootstraptokens import secret


def signing(**data: str) -> Secret:
    return secret(usage_bootstrap_signing="true", **data)


@run_with(guarded)
async def test_the_description_of_the_cluster_is_signed_with_each_token(api: Guarded) -> None:
    maps = api.admin.resource(CONFIGMAPS, "kube-public")
    secrets = api.admin.resource(SECRETS, "kube-system")
    await secrets.create(signing())
    await maps.create(ConfigMap(metadata=ObjectMeta(name="cluster-info"), data={"kubeconfig": "the cluster"}))
    async with controllers(api):
        await api.clock.sleep(2)
        found = (await maps.get("cluster-info")).data
        header, payload, mac = found["jws-kubeconfig-abcdef"].split(".")
        assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "HS256", "kid": "abcdef"}
        assert payload == ""
        signed = f"{header}.{base64.urlsafe_b64encode(b'the cluster').rstrip(b'=').decode()}".encode()
        expected = hmac.digest(b"0123456789abcdef", signed, hashlib.sha256)
        assert base64.urlsafe_b64decode(mac + "=") == expected
        await secrets.delete("bootstrap-token-abcdef")
        await api.clock.sleep(2)
        assert (await maps.get("cluster-info")).data == {"kubeconfig": "the cluster"}


@run_with(guarded)
async def test_a_token_that_may_not_sign_does_not(api: Guarded) -> None:
    maps = api.admin.resource(CONFIGMAPS, "kube-public")
    await api.admin.resource(SECRETS, "kube-system").create(secret())
    await maps.create(ConfigMap(metadata=ObjectMeta(name="cluster-info"), data={"kubeconfig": "x"}))
    async with controllers(api):
        await api.clock.sleep(2)
        assert (await maps.get("cluster-info")).data == {"kubeconfig": "x"}


# Tokens are deleted when they end.


@run_with(guarded)
async def test_a_token_is_deleted_when_it_ends_and_other_secrets_stay(api: Guarded) -> None:
    secrets = api.admin.resource(SECRETS, "kube-system")
    ends = api.clock.now() + 100
    text = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    await secrets.create(secret(expiration=text))
    other = replace(secret(expiration=text), type="Opaque", metadata=ObjectMeta(name="other", namespace="kube-system"))
    await secrets.create(other)
    async with controllers(api):
        await api.clock.sleep(90)
        assert (await secrets.get("bootstrap-token-abcdef")).data["token-id"] == b"abcdef"
        await api.clock.sleep(20)
        await refused(secrets.get("bootstrap-token-abcdef"), 404)
        assert (await secrets.get("other")).type == "Opaque"
