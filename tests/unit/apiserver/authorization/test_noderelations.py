"""Nodes read what their pods need."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import (
    ConfigMapVolumeSource,
    PodResourceClaim,
    PodResourceClaimStatus,
    SecretVolumeSource,
    Volume,
)
from cathedra.api.resource import ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import (
    DEVICECLASSES,
    LEASES,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    SECRETS,
)
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, claim, guarded, node, pod, refused, resource_slice

NO_RELATION = "no relationship found between node 'n1' and this object"


async def missing(attempt: object) -> None:
    """It was allowed, but the object is not there."""
    with pytest.raises(StatusError) as caught:
        await attempt  # type: ignore[misc]  # any verb of any client
    assert caught.value.is_not_found


@run_with(guarded)
async def test_a_node_reads_the_claims_of_its_pods_once_it_is_known_which(api: Guarded) -> None:
    for name in ("direct", "made", "other"):
        await api.admin.resource(RESOURCECLAIMS, "default").create(claim(name))
    claims = (
        PodResourceClaim(name="a", resource_claim_name="direct"),
        PodResourceClaim(name="b", resource_claim_template_name="t"),
    )
    pods = api.admin.resource(PODS, "default")
    made = await pods.create(pod("p", on="n1", resource_claims=claims))
    mine = api.node("n1").resource(RESOURCECLAIMS, "default")
    found: ResourceClaim = await mine.get("direct")
    assert found.metadata.name == "direct"
    assert (await refused(mine.get("made"))).endswith(NO_RELATION)
    statuses = (PodResourceClaimStatus(name="b", resource_claim_name="made"),)
    await pods.update_status(replace(made, status=replace(made.status, resource_claim_statuses=statuses)))
    await mine.get("made")
    assert (await refused(mine.get("other"))).endswith(NO_RELATION)
    assert "cannot list" in await refused(mine.list())
    await refused(api.node("n2").resource(RESOURCECLAIMS, "default").get("direct"))
    await pods.delete("p", grace_period_seconds=0)
    await refused(mine.get("direct"))


@run_with(guarded)
async def test_a_node_reads_the_secrets_and_maps_of_its_pods(api: Guarded) -> None:
    volumes = (
        Volume(name="s", secret=SecretVolumeSource(secret_name="mine")),
        Volume(name="m", config_map=ConfigMapVolumeSource(name="mine")),
    )
    await api.admin.resource(PODS, "default").create(pod("p", on="n1", volumes=volumes))
    await missing(api.node("n1").resource(SECRETS, "default").get("mine"))
    assert (await refused(api.node("n1").resource(SECRETS, "default").get("other"))).endswith(NO_RELATION)
    assert "can only read" in await refused(api.node("n1").resource(SECRETS, "default").delete("mine"))


@run_with(guarded)
async def test_a_node_knows_only_itself_and_its_pods(api: Guarded) -> None:
    for name in ("n1", "n2"):
        await api.admin.resource(NODES).create(node(name))
    agent = api.node("n1")
    await agent.resource(NODES).get("n1")
    message = await refused(agent.resource(NODES).get("n2"))
    assert message.endswith("node 'n1' cannot read 'n2', only its own Node object")
    await agent.resource(PODS, "").list(field_selector="spec.nodeName=n1")
    assert "with spec.nodeName field selector" in await refused(agent.resource(PODS, "").list())
    await refused(agent.resource(PODS, "").list(field_selector="spec.nodeName=n2"))
    await refused(agent.resource(DEVICECLASSES).list())
    await refused(agent.resource(LEASES, "kube-node-lease").get("n2"))


@run_with(guarded)
async def test_a_node_writes_only_its_own_slices(api: Guarded) -> None:
    await api.admin.resource(RESOURCESLICES).create(resource_slice("theirs", on="n2"))
    slices = api.node("n1").resource(RESOURCESLICES)
    await slices.create(resource_slice("mine", on="n1"))
    for other in (resource_slice("x", on="n2"), resource_slice("x")):
        message = await refused(slices.create(other))
        assert message.endswith("can only create ResourceSlice with the same NodeName as the requesting node")
    await refused(slices.get("theirs"))
    await refused(slices.list())
    assert len((await slices.list(field_selector="spec.nodeName=n1")).items) == 1
    await slices.delete_collection(field_selector="spec.nodeName=n1")
    await refused(slices.delete_collection(field_selector="spec.nodeName=n2"))
