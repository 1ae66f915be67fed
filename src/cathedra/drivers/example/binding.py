"""Binding conditions: a pod is bound to its node only after the driver has said that its devices are ready.

The scheduler allocates, then waits for the conditions that the allocation result names; the controller here sets them
in the claim's status (KEP-5007; docs/spec/driver-sdk.md §14 and §17.6). It looks after the claims whose devices are in
the pool of its node, so it runs in the node's driver, and it needs to watch claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from cathedra.api.resource import DeviceRequestAllocationResult, ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.timestamp import Time
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.semantics.conditions import is_true

__all__ = ["BINDING_CONDITION", "FAILURE_CONDITION", "BindingConditions"]

BINDING_CONDITION: Final = "BindingConditions"
FAILURE_CONDITION: Final = "BindingFailureConditions"
"""The names of the reference driver."""

Key = tuple[str, str]
"""Namespace and name of a claim."""


class BindingConditions:
    """The controller of one driver on one node."""

    def __init__(
        self,
        client: Client,
        driver: str,
        node: str,
        *,
        mode: Callable[[], str] = lambda: "ready",
        changed: Callable[[], asyncio.Event] = asyncio.Event,
    ) -> None:
        """``mode`` says what becomes of conditions now: ``ready``, ``fail``, or ``hold`` to leave them as they are;
        ``changed`` gives an event that is set when it may say something else.
        """
        self._client = client.as_manager(f"{driver}-binding")
        self._driver = driver
        self._node = node
        self._mode = mode
        self._mode_changed = changed
        self._queue: WorkQueue[Key] = WorkQueue(client.clock)
        self._claims: Informer[ResourceClaim] = Informer(client, RESOURCECLAIMS, clock=client.clock)
        self._claims.add_handler(on_add=self._look, on_update=lambda _, new: self._look(new))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run())
            await self._claims.wait_synced()
            group.create_task(self._follow_mode())
            group.create_task(run_workers(self._queue, self._sync))

    async def _follow_mode(self) -> None:
        while True:
            await self._mode_changed().wait()
            for claim in self._claims.store.list():
                self._look(claim)

    def _look(self, claim: ResourceClaim) -> None:
        if self._unsatisfied(claim):
            self._queue.add((claim.metadata.namespace, claim.metadata.name))

    def _results(self, claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
        """The claim's devices of this driver on this node that have binding conditions."""
        allocation = claim.status.allocation
        results = () if allocation is None else allocation.devices.results or ()
        return [
            result
            for result in results
            if result.driver == self._driver and result.pool == self._node and result.binding_conditions
        ]

    def _unsatisfied(self, claim: ResourceClaim) -> bool:
        return any(
            not is_true(_conditions(claim, result), kind)
            for result in self._results(claim)
            for kind in result.binding_conditions
        )

    async def _sync(self, key: Key) -> float | None:
        claim = self._claims.store.get(*key)
        mode = self._mode()
        if claim is None or not self._unsatisfied(claim) or mode == "hold":
            return None
        # What this manager has set before and does not set again would be removed: so all its entries, every time.
        entries = [self._entry(result, failed=mode == "fail") for result in self._results(claim)]
        fields = {"metadata": {"uid": claim.metadata.uid}, "status": {"devices": entries}}
        try:
            await self._client.resource(RESOURCECLAIMS, key[0]).apply(key[1], fields, "status")
        except StatusError as error:
            if not error.is_not_found and not error.is_conflict:
                raise
        return None

    def _entry(self, result: DeviceRequestAllocationResult, *, failed: bool) -> dict[str, Any]:
        kinds = result.binding_failure_conditions if failed else result.binding_conditions
        reason, message = ("Failed", "Device cannot be made ready") if failed else ("Ready", "Device is ready")
        condition = {
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": str(Time(self._client.clock.now())),
        }
        identity = {"driver": result.driver, "pool": result.pool, "device": result.device}
        if result.share_id is not None:
            identity["shareID"] = result.share_id
        return {**identity, "conditions": [{"type": kind, **condition} for kind in kinds]}


def _conditions(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> Any:
    identity = (result.driver, result.pool, result.device, result.share_id)
    for entry in claim.status.devices:
        if (entry.driver, entry.pool, entry.device, entry.share_id) == identity:
            return entry.conditions or ()
    return ()
