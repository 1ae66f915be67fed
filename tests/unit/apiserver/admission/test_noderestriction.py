"""Writes of a node to its own objects and its pods."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from cathedra.api.core.coordination_v1 import Lease
from cathedra.api.core.core_v1 import PodResourceClaim, PodResourceClaimStatus, Taint
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.struct import replace
from cathedra.client.resources import LEASES, NODES, PODS, SERVICEACCOUNTS
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, node, pod, refused, service_account


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("example.com/mine", True),
        ("kubernetes.io/hostname", True),
        ("node.kubernetes.io/mine", True),
        ("x.kubelet.kubernetes.io/mine", True),
        ("node-restriction.kubernetes.io/x", False),
        ("kubernetes.io/mine", False),
        ("scheduling.k8s.io/mine", False),
    ],
)
@run_with(guarded)
async def test_a_node_may_not_give_itself_every_label(api: Guarded, *, label: str, allowed: bool) -> None:
    nodes = api.node("n1").resource(NODES)
    made = await nodes.create(node("n1"))
    labelled = replace(made, metadata=replace(made.metadata, labels={**made.metadata.labels, label: "x"}))
    if allowed:
        await nodes.update(labelled)
    else:
        assert (await refused(nodes.update(labelled))).endswith(f"is not allowed to modify labels: {label}")


@run_with(guarded)
async def test_a_node_may_not_take_its_taints_away_nor_touch_another(api: Guarded) -> None:
    made = await api.admin.resource(NODES).create(node("n1"))
    assert made.spec is not None
    spec = replace(made.spec, taints=(Taint(key="a", effect="NoSchedule"),))
    tainted = await api.admin.resource(NODES).update(replace(made, spec=spec))
    message = await refused(api.node("n1").resource(NODES).update(replace(tainted, spec=made.spec)))
    assert message == 'nodes "n1" is forbidden: node "n1" is not allowed to modify taints'
    message = await refused(api.node("n2").resource(NODES).update(tainted))
    assert message.endswith('node "n2" is not allowed to modify node "n1"')


@run_with(guarded)
async def test_a_mirror_pod_refers_to_nothing(api: Guarded) -> None:
    made = await api.admin.resource(NODES).create(node("n1"))
    owner = OwnerReference(api_version="v1", kind="Node", name="n1", uid=made.metadata.uid, controller=True)
    metadata = ObjectMeta(name="m", annotations={"kubernetes.io/config.mirror": "h"}, owner_references=(owner,))
    pods = api.node("n1").resource(PODS, "default")
    good = replace(pod("m", on="n1"), metadata=metadata)
    claims = (PodResourceClaim(name="a", resource_claim_name="c"),)
    bad = replace(pod("m", on="n1", resource_claims=claims), metadata=metadata)
    assert (await refused(pods.create(bad))).endswith('node "n1" can not create pods that reference resourceclaims')
    assert "can only create mirror pods" in await refused(pods.create(pod("m", on="n1")))
    await pods.create(good)


def mirror(**owner: Any) -> Any:
    """Return a mirror pod on n1 with the owner reference ``owner``."""
    reference = OwnerReference(**{"api_version": "v1", "kind": "Node", "name": "n1", "controller": True} | owner)
    metadata = ObjectMeta(name="m", annotations={"kubernetes.io/config.mirror": "h"}, owner_references=(reference,))
    return replace(pod("m", on="n1"), metadata=metadata)


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        ({"name": "n2"}, "can only create pods with an owner reference set to itself"),
        ({"kind": "Pod"}, "can only create pods with an owner reference set to itself"),
        ({"controller": None}, "can only create pods with a controller owner reference set to itself"),
        ({"block_owner_deletion": True}, "must not set blockOwnerDeletion on an owner reference"),
        ({"uid": "other"}, "UID mismatch: expected "),
    ],
)
@run_with(guarded)
async def test_a_mirror_pod_belongs_to_its_node_alone(api: Guarded, *, owner: dict[str, Any], why: str) -> None:
    made = await api.admin.resource(NODES).create(node("n1"))
    pods = api.node("n1").resource(PODS, "default")
    assert why in await refused(pods.create(mirror(**{"uid": made.metadata.uid} | owner)))


@run_with(guarded)
async def test_a_node_reports_on_its_pods_and_changes_nothing_else_of_them(api: Guarded) -> None:
    admin = api.admin.resource(PODS, "default")
    claims = (PodResourceClaim(name="a", resource_claim_template_name="t"),)
    mine = await admin.create(pod("mine", on="n1", resource_claims=claims))
    theirs = await admin.create(pod("theirs", on="n2"))
    pods = api.node("n1").resource(PODS, "default")
    running = await pods.update_status(replace(mine, status=replace(mine.status, phase="Running")))
    assert running.status.phase == "Running"
    assert "can only update pod status for pods with spec.nodeName set to itself" in await refused(
        pods.update_status(theirs)
    )
    labelled = replace(running, metadata=replace(running.metadata, labels={"a": "b"}))
    assert "cannot update labels through pod status" in await refused(pods.update_status(labelled))
    chosen = (PodResourceClaimStatus(name="a", resource_claim_name="c"),)
    claiming = replace(running, status=replace(running.status, resource_claim_statuses=chosen))
    assert "cannot update resource claim statues" in await refused(pods.update_status(claiming))


@run_with(guarded)
async def test_a_node_deletes_its_pods_and_creates_none_but_mirrors(api: Guarded) -> None:
    admin = api.admin.resource(PODS, "default")
    await admin.create(pod("mine", on="n1"))
    await admin.create(pod("theirs", on="n2"))
    pods = api.node("n1").resource(PODS, "default")
    await pods.delete("mine", grace_period_seconds=0)
    message = await refused(pods.delete("theirs"))
    assert message.endswith('node "n1" can only delete pods with spec.nodeName set to itself')


@run_with(guarded)
async def test_a_node_has_one_lease(api: Guarded) -> None:
    leases = api.node("n1").resource(LEASES, "kube-node-lease")
    await leases.create(Lease(metadata=ObjectMeta(name="n1")))
    message = await refused(leases.create(Lease(metadata=ObjectMeta(name="n2"))))
    assert message.endswith("can only access node lease with the same name as the requesting node")
    elsewhere = api.node("n1").resource(LEASES, "default")
    await refused(elsewhere.create(Lease(metadata=ObjectMeta(name="n1"))))


@run_with(guarded)
async def test_a_token_is_for_a_pod_that_runs_here(api: Guarded) -> None:
    await api.admin.resource(SERVICEACCOUNTS, "default").create(service_account("robot"))
    pods = api.admin.resource(PODS, "default")
    mine = await pods.create(pod("mine", on="n1", service_account_name="robot"))
    theirs = await pods.create(pod("theirs", on="n2", service_account_name="robot"))

    def token(bound: BoundObjectReference | None) -> Any:
        accounts = api.node("n1").resource(SERVICEACCOUNTS, "default")
        wanted = TokenRequest(spec=TokenRequestSpec(bound_object_ref=bound))
        return accounts.create_subresource("robot", "token", wanted)

    def to(one: Any, **more: Any) -> BoundObjectReference:
        values = {"api_version": "v1", "kind": "Pod", "name": one.metadata.name, "uid": one.metadata.uid}
        return BoundObjectReference(**values | more)

    assert (await token(to(mine))).status.token
    assert (await refused(token(None))).endswith("node requested token not bound to a pod")
    assert (await refused(token(to(mine, uid="")))).endswith("token with a pod binding without a uid")
    assert (await refused(token(to(theirs)))).endswith("token bound to a pod scheduled on a different node")
    assert "does not match the UID in record" in await refused(token(to(mine, uid="other")), 409)
    await refused(token(to(mine, name="gone")), 404)
