"""Resources of the classic kinds for clients, and the conversion of classic claims to today's form.

Parts of this wing work with v1alpha2; with 1.26 the client converts from and to v1alpha1. The node agent is today's: it
reads claims in v1, and a classic claim is converted to that form, with one result for each handle.
"""

from __future__ import annotations

from typing import Final

from cathedra.api import resource
from cathedra.api.core import resource_v1alpha1 as v1alpha1
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.struct import reshape
from cathedra.classic.kinds import definitions
from cathedra.classic.kinds.definitions import GROUP
from cathedra.client.client import Client
from cathedra.client.negotiation import NegotiatedTransport, OlderVersion, OlderVersions
from cathedra.client.resources import resource_ref

CLAIMS: Final = resource_ref(v1alpha2.ResourceClaim, "resourceclaims", namespaced=True)
TEMPLATES: Final = resource_ref(v1alpha2.ResourceClaimTemplate, "resourceclaimtemplates", namespaced=True)
CLASSES: Final = resource_ref(v1alpha2.ResourceClass, "resourceclasses", namespaced=False)
CONTEXTS: Final = resource_ref(v1alpha2.PodSchedulingContext, "podschedulingcontexts", namespaced=True)
CLAIM_PARAMETERS: Final = resource_ref(v1alpha2.ResourceClaimParameters, "resourceclaimparameters", namespaced=True)
CLASS_PARAMETERS: Final = resource_ref(v1alpha2.ResourceClassParameters, "resourceclassparameters", namespaced=True)
SLICES: Final = resource_ref(v1alpha2.ResourceSlice, "resourceslices", namespaced=False)


def seen_by_node(claim: v1alpha2.ResourceClaim) -> resource.ResourceClaim:
    """Return the claim in the form that today's node agent reads: its consumers, and the drivers that prepare it.

    An allocation without handles is prepared by the driver that the status names.
    """
    status = claim.status
    allocation: resource.AllocationResult | None = None
    if status.allocation is not None:
        drivers = [handle.driver_name for handle in status.allocation.resource_handles] or [status.driver_name]
        results = tuple(
            resource.DeviceRequestAllocationResult(driver=driver or status.driver_name, pool="", device="", request="")
            for driver in drivers
        )
        allocation = resource.AllocationResult(devices=resource.DeviceAllocationResult(results=results))
    return resource.ResourceClaim(
        metadata=claim.metadata,
        status=resource.ResourceClaimStatus(
            allocation=allocation,
            reserved_for=tuple(
                reshape(consumer, resource.ResourceClaimConsumerReference) for consumer in status.reserved_for
            ),
        ),
    )


def _named(resource_class: KubeObject) -> resource.DeviceClass:
    """Return the class as a device class that has its metadata and nothing else."""
    return resource.DeviceClass(metadata=resource_class.metadata)


_OLDER: Final[OlderVersions] = {
    (GROUP, "v1alpha2", "resourceclaims"): (
        OlderVersion("v1alpha1", v1alpha1.ResourceClaim, definitions.claim_to_hub, definitions.claim_from_hub),
    ),
    (GROUP, "v1alpha2", "resourceclaimtemplates"): (
        OlderVersion(
            "v1alpha1", v1alpha1.ResourceClaimTemplate, definitions.template_to_hub, definitions.template_from_hub
        ),
    ),
    (GROUP, "v1alpha2", "resourceclasses"): (
        OlderVersion("v1alpha1", v1alpha1.ResourceClass, definitions.class_to_hub, definitions.class_from_hub),
    ),
    (GROUP, "v1alpha2", "podschedulingcontexts"): (
        OlderVersion(
            "v1alpha1",
            v1alpha1.PodScheduling,
            definitions.context_to_hub,
            definitions.context_from_hub,
            resource="podschedulings",
            kind="PodScheduling",
        ),
    ),
    (GROUP, "v1", "deviceclasses"): tuple(
        OlderVersion(version, kind, _named, resource="resourceclasses", kind="ResourceClass")
        for version, kind in (("v1alpha2", v1alpha2.ResourceClass), ("v1alpha1", v1alpha1.ResourceClass))
    ),
    (GROUP, "v1", "resourceclaims"): (
        OlderVersion("v1alpha2", v1alpha2.ResourceClaim, seen_by_node),
        OlderVersion("v1alpha1", v1alpha1.ResourceClaim, lambda claim: seen_by_node(definitions.claim_to_hub(claim))),
    ),
}


def classic_client(client: Client) -> Client:
    """Return a client that uses one API version of the classic kinds, whichever the server has."""
    transport = NegotiatedTransport(client.transport, _OLDER)
    return Client(transport, clock=client.clock, field_manager=client.field_manager)
