"""Pods, claims and templates."""

from __future__ import annotations

from cathedra.api.core.core_v1 import (
    Container,
    Pod,
    PodResourceClaim,
    PodSpec,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    AllocationResult,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.controllers.resourceclaim.release import FINALIZER
from tests.unit.controllers.world import World

SPEC = ResourceClaimSpec(
    devices=DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=ExactDeviceRequest(device_class_name="gpu")),))
)


def template(name: str = "tpl") -> ResourceClaimTemplate:
    spec = ResourceClaimTemplateSpec(metadata=ObjectMeta(labels={"team": "a"}, annotations={"note": "b"}), spec=SPEC)
    return ResourceClaimTemplate(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def pod(name: str = "p", *entries: PodResourceClaim, node: str = "") -> Pod:
    spec = PodSpec(
        node_name=node,
        containers=(Container(name="c", image="i"),),
        resource_claims=entries or (from_template("gpu"),),
    )
    return Pod(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def from_template(entry: str, template: str = "tpl") -> PodResourceClaim:
    return PodResourceClaim(name=entry, resource_claim_template_name=template)


def named(entry: str, claim: str) -> PodResourceClaim:
    return PodResourceClaim(name=entry, resource_claim_name=claim)


def claim(name: str = "c") -> ResourceClaim:
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace="default"), spec=SPEC)


def reference(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


async def allocate(world: World, name: str, *pods: Pod) -> ResourceClaim:
    """Act as the scheduler."""
    await world.change(RESOURCECLAIMS, name, lambda c: with_metadata(c, finalizers=(FINALIZER,)))
    status = ResourceClaimStatus(allocation=AllocationResult(), reserved_for=tuple(reference(p) for p in pods))
    return await world.change(RESOURCECLAIMS, name, lambda c: replace(c, status=status), status=True)
