"""Binding conditions: a pod is bound to its node only after the driver has said that its devices are ready.

The scheduler allocates, then waits for the conditions that the allocation result names; the controller here sets them
in the claim's status (KEP-5007; docs/spec/driver-sdk.md §14 and §17.6). It looks after the claims whose devices are in
the pool of its node, so it runs in the node's driver, and it needs to watch claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from cathedra.api.resource import DeviceRequestAllocationResult, ResourceClaim
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.driver import Ref
from cathedra.driver.fabric.conditions import (
    BindingConditionTypes,
    BindingOutcome,
    device_key,
    is_ready,
    own_results,
    status_entries,
)
from cathedra.driver.preparing.status import write_device_status

__all__ = ["BINDING_CONDITION", "FAILURE_CONDITION", "BindingConditions"]

BINDING_CONDITION: Final = "BindingConditions"
FAILURE_CONDITION: Final = "BindingFailureConditions"
"""The names of the reference driver."""

_READY: Final = BindingOutcome("Ready", "Device is ready", ready=True)
_FAILED: Final = BindingOutcome("Failed", "Device cannot be made ready", failed=True)

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
        if self._undecided(claim):
            self._queue.add((claim.metadata.namespace, claim.metadata.name))

    def _results(self, claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
        """The claim's devices of this driver on this node that have binding conditions."""
        results = own_results(claim, self._driver)
        return [one for one in results if one.pool == self._node and one.binding_conditions]

    def _undecided(self, claim: ResourceClaim) -> bool:
        return any(not is_ready(claim, one, _types(one)) for one in self._results(claim))

    async def _sync(self, key: Key) -> float | None:
        claim = self._claims.store.get(*key)
        mode = self._mode()
        if claim is None or not self._undecided(claim) or mode == "hold":
            return None
        results = self._results(claim)
        outcome = _FAILED if mode == "fail" else _READY
        entries = [
            entry for one in results for entry in status_entries(claim, [one], {device_key(one): outcome}, _types(one))
        ]
        ref = Ref(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)
        await write_device_status(self._client, ref, entries)
        return None


def _types(result: DeviceRequestAllocationResult) -> BindingConditionTypes:
    return BindingConditionTypes(result.binding_conditions, result.binding_failure_conditions)
