"""Claims that have been allocated devices of the driver, as a scheduler leaves them for a kubelet."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from cathedra.allocation import AllocationError
from cathedra.api import resource
from cathedra.api.core.core_v1 import Namespace, Node
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import NAMESPACES, NODES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.driver.kit.bench import asked, results_for, smallest_requests
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped
from cathedra.node.plugins.client import ClaimReference


@dataclass(frozen=True, slots=True)
class AllocatedClaim:
    """A claim and its allocation."""

    ref: ClaimReference
    allocation: resource.AllocationResult | None

    @property
    def uid(self) -> str:
        """Return the UID of the claim."""
        return self.ref.uid

    @property
    def results(self) -> tuple[resource.DeviceRequestAllocationResult, ...]:
        """Its devices, of all drivers."""
        return () if self.allocation is None else self.allocation.devices.results


class Claims:
    """Creates claims in a namespace of its own, and deletes them at the end."""

    def __init__(self, client: Client, node: str, namespace: str) -> None:
        self.driver = ""
        """The driver's name, once it is known."""
        self._client = client
        self._node = node
        self._namespace = namespace
        self._numbers = itertools.count(1)
        self.made: list[AllocatedClaim] = []
        """Claims that have not been deleted."""

    async def open(self) -> None:
        """Make the namespace, unless it is there.

        Raises:
            StatusError: that is not allowed.
        """
        try:
            await self._client.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name=self._namespace)))
        except StatusError as error:
            if error.status.reason != "AlreadyExists":
                raise

    async def slices(self) -> list[resource.ResourceSlice]:
        """Return the slices that the driver has published for the node or for all, by name."""
        found = (await self._client.resource(RESOURCESLICES).list()).items
        mine = [one for one in found if one.spec.driver == self.driver and one.spec.node_name in (None, "", self._node)]
        return sorted(mine, key=lambda one: one.metadata.name)

    async def node_uid(self) -> str:
        """Return the UID of the Node object.

        Raises:
            StatusError: it does not exist, or may not be read.
        """
        return (await self._client.resource(NODES).get(self._node)).metadata.uid

    async def renew_node(self) -> None:
        """Delete the node and the slices that it owns, as the garbage collector would, and create it under a new UID.

        Raises:
            StatusError: that is not allowed.
        """
        uid = await self.node_uid()
        await self._client.resource(NODES).delete(self._node)
        for one in await self.slices():
            if uid in [owner.uid for owner in one.metadata.owner_references]:
                await self._client.resource(RESOURCESLICES).delete(one.metadata.name)
        await self._client.resource(NODES).create(Node(metadata=ObjectMeta(name=self._node)))

    async def allocate(self, count: int = 1) -> AllocatedClaim:
        """Create a claim with ``count`` devices, which the allocator chooses among the free ones.

        Raises:
            CheckSkipped: fewer devices of the driver are free.
        """
        claim = await self._asked(count)
        try:
            outcome = await results_for(self._client, self.driver, self._node, claim)
        except AllocationError as error:
            raise CheckFailed(f"its devices cannot be allocated: {error}") from error
        if isinstance(outcome, str):
            raise CheckSkipped(f"needs {count} free device{'s' if count > 1 else ''}: {outcome}")
        return await self._make(claim, outcome.results[0])

    async def another(self, of: AllocatedClaim, *more: resource.DeviceRequestAllocationResult) -> AllocatedClaim:
        """Return a second claim with the devices of ``of``, and with ``more`` results."""
        assert of.allocation is not None, "only what was allocated can be given twice"
        devices = replace(of.allocation.devices, results=(*of.results, *more))
        claim = await self._asked(len(of.results))
        return await self._make(claim, replace(of.allocation, devices=devices))

    async def of_devices(self, names: Sequence[tuple[str, str]]) -> AllocatedClaim:
        """Return a claim that was allocated exactly these devices, each a pool and a name."""
        results = tuple(
            resource.DeviceRequestAllocationResult(request="device", driver=self.driver, pool=pool, device=device)
            for pool, device in names
        )
        devices = resource.DeviceAllocationResult(results=results)
        return await self._make(await self._asked(len(names)), resource.AllocationResult(devices=devices))

    async def alternative(self, of: AllocatedClaim) -> AllocatedClaim:
        """Return a claim that got the device of ``of`` for the subrequest ``first`` of its request."""
        assert of.allocation is not None, "only what was allocated can be given twice"
        (request,) = (await self._asked(1)).spec.devices.requests or ()
        first = resource.DeviceSubRequest(
            name="first", device_class_name=self.driver, allocation_mode="ExactCount", count=1
        )
        requests = (resource.DeviceRequest(name=request.name, first_available=(first,)),)
        claim = resource.ResourceClaim(
            metadata=ObjectMeta(name=self._name(), namespace=self._namespace),
            spec=resource.ResourceClaimSpec(devices=resource.DeviceClaim(requests=requests)),
        )
        results = tuple(replace(one, request=f"{request.name}/first") for one in of.results)
        return await self._make(claim, replace(of.allocation, devices=replace(of.allocation.devices, results=results)))

    async def configured(self, configs: Sequence[resource.DeviceAllocationConfiguration]) -> AllocatedClaim:
        """Return a claim with one device and these configurations.

        Raises:
            CheckSkipped: no device is free.
        """
        free = await self.allocate()
        assert free.allocation is not None, "it was just allocated"
        await self.delete(free)
        devices = replace(free.allocation.devices, config=tuple(configs))
        claim = await self._asked(1)
        return await self._make(claim, replace(free.allocation, devices=devices))

    async def waiting(self) -> AllocatedClaim:
        """Return a claim that has been allocated nothing."""
        return await self._make(await self._asked(1), None)

    async def deallocate(self, claim: AllocatedClaim) -> None:
        """Remove the allocation from the claim's object without a call of the driver.

        Its devices can then be allocated to another claim while the driver still has them prepared: an API server may
        refuse to allocate devices that a claim holds.
        """
        claims = self._client.resource(RESOURCECLAIMS, self._namespace)
        stored = await claims.get(claim.ref.name)
        await claims.update_status(replace(stored, status=replace(stored.status, allocation=None)))

    async def delete(self, claim: AllocatedClaim) -> None:
        """Delete the claim's object without a call of the driver."""
        if claim in self.made:
            self.made.remove(claim)
        try:
            await self._client.resource(RESOURCECLAIMS, self._namespace).delete(claim.ref.name)
        except StatusError as error:
            if not error.is_not_found:
                raise

    async def _asked(self, count: int) -> resource.ResourceClaim:
        """Return a claim for ``count`` devices, with the least amount of shared ones, so that other claims fit too."""
        least = smallest_requests(await self.slices())
        return asked(self.driver, self._name(), self._namespace, "", count, least)

    def _name(self) -> str:
        return f"claim-{next(self._numbers)}"

    async def _make(
        self, claim: resource.ResourceClaim, allocation: resource.AllocationResult | None
    ) -> AllocatedClaim:
        claims = self._client.resource(RESOURCECLAIMS, self._namespace)
        unnamed = replace(claim, metadata=ObjectMeta(generate_name=f"{claim.metadata.name}-"))
        made = await claims.create(unnamed)
        if allocation is not None:
            await claims.update_status(replace(made, status=resource.ResourceClaimStatus(allocation=allocation)))
        ref = ClaimReference(self._namespace, made.metadata.uid, made.metadata.name)
        self.made.append(AllocatedClaim(ref, allocation))
        return self.made[-1]
