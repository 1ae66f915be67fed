"""The test driver of 1.31: a controller that counts claims, and a node plugin that passes configuration on.

A claim requests exactly one device, without selectors, and gets a device that is in no slice. The controller counts
allocations from the claims when it starts, so it may be killed at any time. The node plugin publishes nothing. It turns
``a: b`` in the claim's parameters into the environment variable ``user_a=b``, and in the class's into ``admin_a=b``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from cathedra.api import resource
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import RawJSON, decode
from cathedra.classic.controlplane.controller import ControllerAllocation, ControllerDriver, control_plane_client
from cathedra.classic.controlplane.kinds import ControlledClaim, allocated_by
from cathedra.classic.testdriver import AllocatedClaims, TestResources
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.driver.claim import Claim, Edits, Prepared
from cathedra.driver.device import Pool
from cathedra.driver.driver import Driver
from cathedra.driver.errors import DriverError
from cathedra.driver.serving.registration import DRA_OF_131

NOWHERE = "none"
"""Pool and device of what is allocated: the driver publishes neither."""


class UnusableParameters(Exception):
    """The claim requests something that this driver does not have, or no resource is left."""


class ControlPlaneTestDriver(ControllerDriver):
    """Gives away devices that do nothing."""

    def __init__(self, client: Client, name: str, resources: TestResources) -> None:
        self._client = client
        self._name = name
        self._resources = resources
        self._allocated = AllocatedClaims(resources)

    async def recover(self) -> None:
        """Count the allocations that exist when the controller starts.

        Raises:
            StatusError, ConnectionError: the API server cannot be reached.
        """
        await self._allocated.recover(control_plane_client(self._client).resource(RESOURCECLAIMS), self._node_of)

    def _node_of(self, claim: resource.ResourceClaim) -> str | None:
        allocation = claim.status.allocation
        if allocation is None or allocated_by(allocation) != self._name:
            return None
        return _only_node(allocation) if self._resources.node_local else ""

    def statistics(self) -> dict[str, int]:
        """Return claims that are allocated, by node; "" counts those of the cluster."""
        return self._allocated.statistics()

    async def allocate(self, claims: Sequence[ControllerAllocation], selected_node: str) -> None:
        """Allocate one claim after the other; one that cannot be allocated gets an ``error``."""
        for wanted in claims:
            try:
                wanted.allocation = self._allocate(wanted, selected_node)
            except UnusableParameters as error:
                wanted.error = error

    def _allocate(self, wanted: ControllerAllocation, selected_node: str) -> resource.AllocationResult:
        request = _only_request(wanted.claim)
        config = tuple(_configuration(wanted.claim, request.name, wanted.device_classes, self._name))
        node = self._allocated.node_of(wanted.claim)
        if node is None:
            node = selected_node if self._resources.node_local else ""
            if not self._allocated.has_room(selected_node, 1):
                where = f'on node "{node}"' if node else "in the cluster"
                raise UnusableParameters(f"resources exhausted {where}")
            self._allocated.enter(wanted.claim, node)
        result = resource.DeviceRequestAllocationResult(
            request=request.name, driver=self._name, pool=NOWHERE, device=NOWHERE
        )
        return resource.AllocationResult(
            devices=resource.DeviceAllocationResult(results=(result,), config=config),
            node_selector=self._resources.available_on(node),
        )

    async def deallocate(self, claim: ControlledClaim) -> None:
        """Count the claim no longer."""
        self._allocated.remove(claim)

    async def unsuitable_nodes(
        self, pod: Pod, claims: Sequence[ControllerAllocation], potential_nodes: list[str]
    ) -> None:
        """Enter, for each claim, the nodes without room for all of the pod's claims together."""
        self._allocated.exclude_nodes(claims, potential_nodes)


def _only_request(claim: ControlledClaim) -> resource.DeviceRequest:
    requests = claim.spec.devices.requests or ()
    exactly = requests[0].exactly if len(requests) == 1 else None
    if exactly is None or (exactly.allocation_mode, exactly.count) != ("ExactCount", 1):
        raise UnusableParameters("only claims requesting exactly one device are supported")
    if exactly.selectors:
        raise UnusableParameters("device selectors are not supported")
    return requests[0]


def _configuration(
    claim: ControlledClaim, request: str, classes: Mapping[str, resource.DeviceClass], driver: str
) -> Iterator[resource.DeviceAllocationConfiguration]:
    """Return the configuration for the driver, that of the claim before that of the class."""
    for config in claim.spec.devices.config:
        if config.opaque is not None and config.opaque.driver == driver and request in (config.requests or (request,)):
            yield resource.DeviceAllocationConfiguration(source="FromClaim", opaque=config.opaque)
    for device_class in classes.values():
        if device_class.spec.selectors:
            raise UnusableParameters("device selectors are not supported")
        for entry in device_class.spec.config:
            if entry.opaque is not None and entry.opaque.driver == driver:
                yield resource.DeviceAllocationConfiguration(source="FromClass", opaque=entry.opaque)


def _only_node(allocation: resource.AllocationResult) -> str:
    """Return the only node that can use the allocation, or "" if it is not limited to one."""
    terms = allocation.node_selector.node_selector_terms if allocation.node_selector is not None else ()
    values = [value for term in terms or () for expression in term.match_expressions for value in expression.values]
    return values[0] if len(values) == 1 else ""


_NO_NAME = re.compile(r"[^a-zA-Z0-9]")


class InvalidParameters(DriverError):
    """Parameters are no object with texts."""


class ControlPlaneTestPlugin(Driver):
    """Turns parameters into variables."""

    services = (DRA_OF_131,)
    exclusive = False
    cdi_class = "test"

    def __init__(self, name: str) -> None:
        self.name = name

    def resources(self) -> Iterable[Pool]:
        """Return nothing: the devices that the controller allocates are in no slice."""
        return ()

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """Return the environment variables of each device, with one that names its claim and request."""
        allocation = claim.raw.status.allocation
        entries = allocation.devices.config if allocation is not None else ()
        for device in claim.allocations:
            env: dict[str, str] = {}
            for entry in entries:
                mine = entry.opaque is not None and entry.opaque.driver == self.name
                if entry.opaque is not None and mine and device.request in (entry.requests or (device.request,)):
                    prefix = "admin" if entry.source == "FromClass" else "user"
                    env |= _variables(prefix, entry.opaque.parameters)
            marker = _NO_NAME.sub("_", f"claim_{claim.name}_{device.request}")
            yield device.prepared(Edits(env={**env, marker: "true"}))


def _variables(prefix: str, parameters: RawJSON | None) -> dict[str, str]:
    raw = parameters.data if parameters is not None else b"{}"
    try:
        values = decode(dict[str, str], raw)
    except msgspec.MsgspecError as error:
        raise InvalidParameters(f"{prefix} parameters {raw.decode()!r}: {error}") from error
    return {f"{prefix}_{key.lower()}": value for key, value in values.items()}
