"""Claims of a pod, and the CDI devices of its containers (docs/spec/node.md §7.2 and §8).

CDI devices come from the cache alone, so that containers can restart while driver and API server are away. The checks
run before any driver is called and change nothing. Their texts are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Iterator

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.api.resource import ResourceClaim
from cathedra.node.claims.claiminfo import ClaimInfo, ClaimInfoCache, DriverState
from cathedra.node.claims.errors import ClaimError, PrepareError
from cathedra.node.plugins.client import PluginDevice
from cathedra.releases import FeatureGates
from cathedra.semantics.podclaims import (
    EntryClaim,
    NotOwner,
    PodClaimError,
    check_owner,
    entry_claim,
    extended_claim_name,
    is_reserved_for_group_named,
    pod_group_name,
)


def container_claims(pod: Pod, container: Container, gates: FeatureGates) -> Iterator[tuple[EntryClaim, str]]:
    """The claims that a container refers to, each with the request it names ("" for all of them), in order."""
    extended = pod.status.extended_resource_claim_status
    for claim in pod_claims(pod, gates):
        if claim.entry:
            for reference in container.resources.claims:
                if reference.name == claim.entry:
                    yield claim, reference.request
        elif extended is not None:
            for mapping in extended.request_mappings:
                # As in the kubelet, the container must still request the resource: the mapping alone gives no device.
                wanted = container.resources.requests.get(mapping.resource_name)
                if mapping.container_name == container.name and wanted is not None and wanted.nanos > 0:
                    yield claim, mapping.request_name


def claim_devices(info: ClaimInfo, request: str) -> Iterator[tuple[str, PluginDevice]]:
    """Drivers and devices of a claim that serve ``request``; all of them if it is ""."""
    for driver, state in info.drivers.items():
        for device in state.devices:
            # A driver may leave the requests of a device out; it then serves all of them, as in the kubelet.
            if not request or not device.request_names or request in device.request_names:
                yield driver, device


def cdi_devices(pod: Pod, container: Container, cache: ClaimInfoCache, gates: FeatureGates) -> tuple[str, ...]:
    """Qualified CDI names for a container, in order, each once.

    Raises:
        ClaimError: a claim that the container refers to is not in the cache.
    """
    names: list[str] = []
    for claim, request in container_claims(pod, container, gates):
        info = cache.get(pod.metadata.namespace, claim.name)
        if info is None:
            raise ClaimError(
                f"internal error: unable to get claim info for ResourceClaim {claim.name} "
                f"in namespace {pod.metadata.namespace}"
            )
        for _, device in claim_devices(info, request):
            names.extend(device.cdi_device_ids)
    # Two requests may share a device, and a runtime refuses a CDI name that is given twice.
    return tuple(dict.fromkeys(names))


def pod_claims(pod: Pod, gates: FeatureGates) -> Iterator[EntryClaim]:
    """Yield the claims of a pod, in order. The claim of its extended resources comes last and has the entry "".

    Raises:
        PrepareError: a claim has not been created yet, or an entry names neither claim nor template.
    """
    for entry in pod.spec.resource_claims:
        try:
            claim = entry_claim(pod, entry)
        except PodClaimError as error:
            raise PrepareError(str(error)) from error
        if claim is not None:
            yield claim
    extended = extended_claim_name(pod)
    if extended and gates["DRAExtendedResource"]:
        yield EntryClaim("", extended, generated=False)


def check_allowed(pod: Pod, claim: ResourceClaim, wanted: EntryClaim, gates: FeatureGates) -> None:
    """Check that ``pod`` may use ``claim``: owner, reservation, allocation, in this order.

    Raises:
        PrepareError: the pod may not use the claim, or not yet.
    """
    # Behind a closed gate the reservation of a group is no permission, although an older object may hold one.
    group = pod_group_name(pod) if gates["DRAWorkloadResourceClaims"] else ""
    if wanted.generated:
        try:
            check_owner(claim, pod, group)
        except NotOwner as error:
            raise PrepareError(str(error)) from error
    if not is_reserved_for_group_named(claim, pod, group):
        raise PrepareError(
            f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use "
            f"ResourceClaim {claim.metadata.name} ({claim.metadata.uid})"
        )
    if claim.status.allocation is None:
        raise PrepareError(f"ResourceClaim {claim.metadata.name}: not allocated")


def driver_states(claim: ResourceClaim, gates: FeatureGates) -> dict[str, DriverState]:
    """The drivers of an allocated claim, none of which has prepared anything, with the operations each skips.

    A driver skips what all of its devices in the claim skip (docs/spec/node.md §12).

    Raises:
        PrepareError: an operation is to be skipped, and this node does not know how.
    """
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    skips: dict[str, frozenset[str]] = {}
    for result in results:
        known = _skipped(result.skip_node_operations)
        # One device that needs the driver is enough: the call is for the whole claim.
        skips[result.driver] = skips.get(result.driver, known) & known
    if any(skips.values()) and not gates["DRAOptionalNodeOperations"]:
        raise PrepareError("DRAOptionalNodeOperations feature gate is disabled on kubelet")
    return {driver: DriverState(skip=skip) for driver, skip in skips.items()}


def _skipped(operations: tuple[str, ...]) -> frozenset[str]:
    if "*" in operations:
        return frozenset({"NodePrepareResources", "NodeUnprepareResources"})
    return frozenset(operations) & {"NodePrepareResources", "NodeUnprepareResources"}
