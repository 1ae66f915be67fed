"""Claims on the bench allocated as a scheduler does it: by the allocator, from what the driver has published.

Counters, taints, selectors and shares have their say, and devices that other claims of the bench hold are gone.
"""

from __future__ import annotations

from cathedra.allocation import Allocation, Cluster, allocate
from cathedra.api import resource
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.client import Client
from cathedra.client.resources import NODES, RESOURCECLAIMS, RESOURCESLICES

__all__ = ["asked", "results_for"]


def asked(driver: str, name: str, namespace: str, selector: str, count: int) -> resource.ResourceClaim:
    """A claim for ``count`` devices of ``driver`` that a CEL expression selects; "" selects all."""
    expressions = (resource.DeviceSelector(cel=resource.CELDeviceSelector(expression=selector)),) if selector else ()
    exactly = resource.ExactDeviceRequest(
        device_class_name=driver, selectors=expressions, allocation_mode="ExactCount", count=count
    )
    request = resource.DeviceRequest(name="device", exactly=exactly)
    spec = resource.ResourceClaimSpec(devices=resource.DeviceClaim(requests=(request,)))
    return resource.ResourceClaim(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


async def results_for(client: Client, driver: str, node: str, claim: resource.ResourceClaim) -> Allocation | str:
    """What the allocator gives to ``claim`` now, or why it gives nothing.

    Raises:
        AllocationError: the claim cannot be allocated at all, as with a selector that fails.
    """
    expression = resource.CELDeviceSelector(expression=f'device.driver == "{driver}"')
    kind = resource.DeviceClass(
        metadata=ObjectMeta(name=driver),
        spec=resource.DeviceClassSpec(selectors=(resource.DeviceSelector(cel=expression),)),
    )
    nodes = await client.resource(NODES).list()
    slices = await client.resource(RESOURCESLICES).list()
    claims = await client.resource(RESOURCECLAIMS).list()
    cluster = Cluster.of([*nodes.items, kind, *slices.items, *claims.items])
    for what in (*slices.undecodable, *claims.undecodable):
        cluster.add_undecodable(what)
    outcome = allocate(node, claim, cluster)
    return outcome if isinstance(outcome, Allocation) else str(outcome)
