"""Which CDI devices a container gets from its pod's prepared claims.

docs/spec/node.md §8. The answer comes from the cache alone, so containers restart while driver and API server are
away.
"""

from __future__ import annotations

from collections.abc import Iterator

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.node.claims.claiminfo import ClaimInfo, ClaimInfoCache
from cathedra.node.claims.errors import ClaimError
from cathedra.node.claims.resolve import pod_claims
from cathedra.node.plugins.client import PluginDevice
from cathedra.releases import FeatureGates
from cathedra.semantics.podclaims import EntryClaim

__all__ = ["cdi_devices", "claim_devices", "container_claims"]


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
                wanted = container.resources.requests.get(mapping.resource_name)
                if mapping.container_name == container.name and wanted is not None and wanted.nanos > 0:
                    yield claim, mapping.request_name


def claim_devices(info: ClaimInfo, request: str) -> Iterator[tuple[str, PluginDevice]]:
    """Drivers and devices of a claim that serve ``request``; all of them if it is ""."""
    for driver, state in info.drivers.items():
        for device in state.devices:
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
    return tuple(dict.fromkeys(names))
