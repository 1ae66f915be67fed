"""Which claims a pod has, and whether it may use them: checks before any driver is called, changing nothing.

spec: node.md, section 7.2, steps 1 and 2. The texts are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cathedra.api.core.core_v1 import Pod
from cathedra.api.gates import FeatureGates
from cathedra.api.resource import ResourceClaim
from cathedra.node.claims.claiminfo import DriverState
from cathedra.node.claims.errors import PrepareError
from cathedra.semantics.owners import controller_of

__all__ = ["PodClaim", "check_allowed", "driver_states", "pod_claims"]


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of a pod's claims: its name in the pod ("" for extended resources) and the claim's own."""

    entry: str
    claim_name: str
    from_template: bool = False


def pod_claims(pod: Pod, gates: FeatureGates) -> Iterator[PodClaim]:
    """The claims of a pod, in order.

    Raises:
        PrepareError: a claim is not generated yet, or an entry says nothing.
    """
    where = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    generated = {status.name: status for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield PodClaim(entry.name, entry.resource_claim_name)
            continue
        if entry.resource_claim_template_name is None:
            raise PrepareError(f'{where}, spec.resourceClaim "{entry.name}": none of the supported fields are set')
        status = generated.get(entry.name)
        if status is None:
            raise PrepareError(f"{where}: ResourceClaim not created yet")
        if status.resource_claim_name is not None:
            yield PodClaim(entry.name, status.resource_claim_name, from_template=True)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name and gates["DRAExtendedResource"]:
        yield PodClaim("", extended.resource_claim_name)


def check_allowed(pod: Pod, claim: ResourceClaim, wanted: PodClaim, gates: FeatureGates) -> None:
    """Whether ``pod`` may use ``claim``: owner, reservation, allocation, in this order.

    Raises:
        PrepareError: it may not, or not yet.
    """
    group = _pod_group(pod) if gates["DRAWorkloadResourceClaims"] else ""
    if wanted.from_template and not _owned(pod, claim, group):
        raise PrepareError(
            f"ResourceClaim {claim.metadata.namespace}/{claim.metadata.name} was not created for Pod "
            f"{pod.metadata.namespace}/{pod.metadata.name} (Pod is not owner)"
        )
    if not _reserved(pod, claim, group):
        raise PrepareError(
            f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use "
            f"ResourceClaim {claim.metadata.name} ({claim.metadata.uid})"
        )
    if claim.status.allocation is None:
        raise PrepareError(f"ResourceClaim {claim.metadata.name}: not allocated")


def _pod_group(pod: Pod) -> str:
    scheduling = pod.spec.scheduling_group
    return (scheduling.pod_group_name or "") if scheduling is not None else ""


def _owned(pod: Pod, claim: ResourceClaim, group: str) -> bool:
    owner = controller_of(claim)
    if owner is None:
        return False
    if owner.uid == pod.metadata.uid:
        return True
    in_group = owner.kind == "PodGroup" and owner.api_version.partition("/")[0] == "scheduling.k8s.io"
    return bool(group) and in_group and owner.name == group


def _reserved(pod: Pod, claim: ResourceClaim, group: str) -> bool:
    return any(
        consumer.uid == pod.metadata.uid
        or (
            bool(group)
            and consumer.resource == "podgroups"
            and consumer.api_group == "scheduling.k8s.io"
            and consumer.name == group
        )
        for consumer in claim.status.reserved_for
    )


def driver_states(claim: ResourceClaim, gates: FeatureGates) -> dict[str, DriverState]:
    """The drivers of an allocated claim, none of which has prepared anything, with the operations each skips.

    A driver skips what all of its devices in the claim skip (spec: node.md, section 12).

    Raises:
        PrepareError: an operation is to be skipped, and this node does not know how.
    """
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    skips: dict[str, frozenset[str]] = {}
    for result in results:
        known = _skipped(result.skip_node_operations)
        skips[result.driver] = skips.get(result.driver, known) & known
    if any(skips.values()) and not gates["DRAOptionalNodeOperations"]:
        raise PrepareError("DRAOptionalNodeOperations feature gate is disabled on kubelet")
    return {driver: DriverState(skip=skip) for driver, skip in skips.items()}


def _skipped(operations: tuple[str, ...]) -> frozenset[str]:
    if "*" in operations:
        return frozenset({"NodePrepareResources", "NodeUnprepareResources"})
    return frozenset(operations) & {"NodePrepareResources", "NodeUnprepareResources"}
