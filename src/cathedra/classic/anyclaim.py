"""Claims of any release in which drivers allocate: those of 1.26 to 1.30, and those of 1.31 that name a controller."""

from __future__ import annotations

from typing import Any, TypeVar

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.classic.controlplane.kinds import ControlledClaim
from cathedra.classic.resources import CLAIMS
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.transport import ResourceRef
from cathedra.semantics.podclaims import pod_consumer

AnyClaim = v1alpha2.ResourceClaim | ControlledClaim
C = TypeVar("C", bound=AnyClaim)


def ref_of(claim: AnyClaim) -> ResourceRef[Any]:
    """Return the resource of the claim's kind."""
    return RESOURCECLAIMS if isinstance(claim, ControlledClaim) else CLAIMS


def consumer_of(claim: AnyClaim, pod: Pod) -> Any:
    """Return the entry in ``reservedFor`` that reserves the claim for the pod."""
    if isinstance(claim, ControlledClaim):
        return pod_consumer(pod)
    return v1alpha2.ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
