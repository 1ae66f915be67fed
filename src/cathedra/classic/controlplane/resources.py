"""Client of the kinds of 1.31: claims and classes as in v1, with the additional fields of that release."""

from __future__ import annotations

from typing import Final

from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.classic.controlplane.kinds import conversion
from cathedra.classic.kinds.definitions import GROUP
from cathedra.client.client import Client
from cathedra.client.negotiation import NegotiatedTransport, OlderVersion, OlderVersions

_OLDER: Final[OlderVersions] = {
    (GROUP, "v1", "resourceclaims"): (
        OlderVersion("v1alpha3", v1alpha3.ResourceClaim, conversion.claim_to_hub, conversion.claim_from_hub),
    ),
    (GROUP, "v1", "resourceclaimtemplates"): (
        OlderVersion(
            "v1alpha3", v1alpha3.ResourceClaimTemplate, conversion.template_to_hub, conversion.template_from_hub
        ),
    ),
    (GROUP, "v1", "deviceclasses"): (
        OlderVersion("v1alpha3", v1alpha3.DeviceClass, conversion.class_to_hub, conversion.class_from_hub),
    ),
    (GROUP, "v1alpha2", "podschedulingcontexts"): (
        OlderVersion("v1alpha3", v1alpha3.PodSchedulingContext, conversion.context_to_hub, conversion.context_from_hub),
    ),
}


def control_plane_client(client: Client) -> Client:
    """Return a client that keeps the fields for controllers in claims and classes of 1.31."""
    transport = NegotiatedTransport(client.transport, _OLDER)
    return Client(transport, clock=client.clock, field_manager=client.field_manager)
