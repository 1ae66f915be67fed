"""A node shows its static pods to the API as mirrors; by mounts in them it must not come by others' credentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from cathedra.api.core.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from cathedra.api.core.core_v1 import (
    Container,
    EnvVar,
    EnvVarSource,
    Pod,
    PodCertificateProjection,
    ProjectedVolumeSource,
    SecretKeySelector,
    SecretProjection,
    SecretVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.struct import replace
from cathedra.client.resources import NODES, PODS, SERVICEACCOUNTS
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, node, pod, refused, service_account


@dataclass
class Mirrors:
    """Mirror pods of one node in one namespace."""

    api: Guarded
    owner: OwnerReference

    @classmethod
    async def of(cls, api: Guarded, name: str = "n1") -> Mirrors:
        made = await api.admin.resource(NODES).create(node(name))
        return cls(
            api, OwnerReference(api_version="v1", kind="Node", name=name, uid=made.metadata.uid, controller=True)
        )

    def make(self, name: str = "m", **spec: Any) -> Pod:
        metadata = ObjectMeta(
            name=name, annotations={"kubernetes.io/config.mirror": "h"}, owner_references=(self.owner,)
        )
        return replace(pod(name, on=self.owner.name, **spec), metadata=metadata)


def projected(part: VolumeProjection) -> dict[str, Any]:
    return {"volumes": (Volume(name="v", projected=ProjectedVolumeSource(sources=(part,))),)}


ATTEMPTS = {
    "token": projected(VolumeProjection(service_account_token=ServiceAccountTokenProjection(path="token"))),
    "certificate": projected(VolumeProjection(pod_certificate=PodCertificateProjection(signer_name="a.b/c"))),
    "projected secret": projected(VolumeProjection(secret=SecretProjection(name="s"))),
    "secret": {"volumes": (Volume(name="v", secret=SecretVolumeSource(secret_name="s")),)},
    "environment": {
        "init_containers": (
            Container(
                name="c",
                image="i",
                env=(EnvVar(name="E", value_from=EnvVarSource(secret_key_ref=SecretKeySelector(name="s", key="k"))),),
            ),
        )
    },
    "account": {"service_account_name": "deployer"},
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
@run_with(guarded)
async def test_a_mirror_pod_mounts_no_credential(api: Guarded, *, attempt: str) -> None:
    mirrors = await Mirrors.of(api)
    bad = mirrors.make(**ATTEMPTS[attempt])
    await refused(api.node("n1").resource(PODS, "default").create(bad))
    message = await refused(api.admin.resource(PODS, "default").create(bad))
    assert message.startswith('pods "m" is forbidden: a mirror pod may not ')


@run_with(guarded)
async def test_a_node_gets_no_token_for_a_mirror_pod(api: Guarded) -> None:
    await api.admin.resource(SERVICEACCOUNTS, "default").create(service_account("default"))
    mirrors = await Mirrors.of(api)
    made = await api.node("n1").resource(PODS, "default").create(mirrors.make())
    bound = BoundObjectReference(kind="Pod", api_version="v1", name="m", uid=made.metadata.uid)
    request = TokenRequest(spec=TokenRequestSpec(bound_object_ref=bound))
    accounts = api.node("n1").resource(SERVICEACCOUNTS, "default")
    assert "no relationship found" in await refused(accounts.create_subresource("default", "token", request))
