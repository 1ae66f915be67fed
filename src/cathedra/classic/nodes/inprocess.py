"""A classic node plugin of this process, in the form in which the node agent calls drivers: for simulated nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.status import StatusError
from cathedra.classic.nodes.plugin import NodeClaim, NodeDriver, StructuredHandle
from cathedra.classic.resources import CLAIMS
from cathedra.client.client import Client
from cathedra.node.plugins.client import ClaimReference, PluginCallError, PluginDevice, PrepareOutcome


class InProcessNodeDriver:
    """Reads handles from claims as a kubelet does, and calls the driver without a socket."""

    def __init__(self, api: Client, name: str, driver: NodeDriver) -> None:
        """``api`` reads claims as the node; ``name`` is the driver's."""
        self._api = api
        self._name = name
        self._driver = driver

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        """Make the claims ready; by claim UID."""
        outcomes: dict[str, PrepareOutcome] = {}
        for reference in claims:
            claim = await self._read(reference)
            try:
                devices = tuple(await self._driver.prepare(claim))
            except Exception as error:
                # Any error of a driver becomes the outcome of this claim, as over the socket.
                outcomes[reference.uid] = PrepareOutcome(error=str(error) or type(error).__name__)
            else:
                outcomes[reference.uid] = PrepareOutcome((PluginDevice("", "", cdi_device_ids=devices),))
        return outcomes

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Unprepare the claims. Return an error text or "" by claim UID."""
        errors: dict[str, str] = {}
        for reference in claims:
            try:
                await self._driver.unprepare(NodeClaim(reference.namespace, reference.uid, reference.name))
            except Exception as error:
                # As above.
                errors[reference.uid] = str(error) or type(error).__name__
            else:
                errors[reference.uid] = ""
        return errors

    async def _read(self, reference: ClaimReference) -> NodeClaim:
        try:
            found = await self._api.resource(CLAIMS, reference.namespace).get(reference.name)
        except (StatusError, ConnectionError) as error:
            raise PluginCallError("Unavailable", str(error)) from error
        data, structured = _handle(found, self._name)
        return NodeClaim(reference.namespace, reference.uid, reference.name, data, structured)


def _handle(claim: v1alpha2.ResourceClaim, driver: str) -> tuple[str, StructuredHandle | None]:
    allocation = claim.status.allocation
    for handle in allocation.resource_handles if allocation is not None else ():
        if (handle.driver_name or claim.status.driver_name) != driver:
            continue
        structured = handle.structured_data
        if structured is None:
            return handle.data, None
        names = tuple(r.named_resources.name for r in structured.results if r.named_resources is not None)
        return handle.data, StructuredHandle(
            node=structured.node_name,
            instances=names,
            class_parameters=structured.vendor_class_parameters.data if structured.vendor_class_parameters else b"",
            claim_parameters=structured.vendor_claim_parameters.data if structured.vendor_claim_parameters else b"",
            request_parameters=tuple(
                r.vendor_request_parameters.data if r.vendor_request_parameters else b"" for r in structured.results
            ),
        )
    return "", None
