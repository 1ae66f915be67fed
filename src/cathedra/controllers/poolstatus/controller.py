"""The ResourcePoolStatusRequest controller: one answer per request (docs/spec/controllers.md §4)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from cathedra.api.core.meta_v1 import Condition
from cathedra.api.core.resource_v1alpha3 import ResourcePoolStatusRequest, ResourcePoolStatusRequestStatus
from cathedra.api.resource import Device, DeviceTaintRule
from cathedra.api.struct import Time, replace
from cathedra.client.informer import Informer
from cathedra.client.resources import DEVICETAINTRULES, RESOURCECLAIMS, RESOURCEPOOLSTATUSREQUESTS, RESOURCESLICES
from cathedra.client.workqueue import NotRetryable, RetryLater, WorkQueue, one_of_many, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.devicetaints.taints import rule_selects
from cathedra.controllers.poolstatus.calculation import Rules, pool_statuses, usage
from cathedra.releases import behaviours

__all__ = ["ResourcePoolStatusRequestController"]

_LOG = logging.getLogger(__name__)

DEFAULT_LIMIT: Final = 100
ATTEMPTS: Final = 5
CLEAN_UP_PERIOD: Final = 600.0
KEEP_ANSWERED: Final = 3600.0
KEEP_UNANSWERED: Final = 86400.0
_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})


class ResourcePoolStatusRequestController:
    """Answers requests, and forgets them after a while."""

    name = "resourcepoolstatusrequest-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._queue: WorkQueue[str] = context.queue()
        self._requests = context.informers.of(RESOURCEPOOLSTATUSREQUESTS)
        self._slices = context.informers.of(RESOURCESLICES)
        self._claims = context.informers.of(RESOURCECLAIMS)
        self._taint_rules: Informer[Any] | None = None
        if context.enabled("DRADeviceTaintRules"):
            self._taint_rules = context.informers.of(DEVICETAINTRULES)
        views = context.gates.has(behaviours.POOL_STATUS_COMPLETE)
        self._rules = Rules(views=views, is_tainted=self._is_tainted)
        self._requests.add_handler(on_add=self._changed, on_update=lambda _, new: self._changed(new))

    async def run(self) -> None:
        """Work until cancelled."""
        for informer in (self._requests, self._slices, self._claims, self._taint_rules):
            if informer is not None:
                await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._queue, self._reconcile, workers=1))
            group.create_task(self._clean_up())

    def _changed(self, request: ResourcePoolStatusRequest) -> None:
        if request.status is None:
            self._queue.add(request.metadata.name)

    async def _reconcile(self, name: str) -> None:
        request = self._requests.store.get("", name)
        if request is None or request.status is not None:
            return
        spec = request.spec
        slices = [
            slice_
            for slice_ in self._slices.store
            if slice_.spec.driver == spec.driver and spec.pool_name in (None, slice_.spec.pool.name)
        ]
        pools = pool_statuses(
            slices,
            usage(self._claims.store, self._rules),
            self._rules,
            default_partition_attribute=spec.default_partition_type_attribute or "",
        )
        incomplete = [pool for pool in pools if pool.total_devices is None]
        if incomplete:
            text = incomplete[0].validation_error or ""
            if self._queue.failures(name) >= ATTEMPTS:
                raise NotRetryable(text)
            raise RetryLater(text)
        shown = pools[: DEFAULT_LIMIT if spec.limit is None else spec.limit]
        condition = Condition(
            type="Complete",
            status="True",
            last_transition_time=Time(self._clock.now()),
            reason="CalculationComplete",
            message=f"Calculated status for {len(shown)} pools",
        )
        status = ResourcePoolStatusRequestStatus(pools=tuple(shown), conditions=(condition,), pool_count=len(pools))
        await self._client.resource(RESOURCEPOOLSTATUSREQUESTS).update_status(replace(request, status=status))

    def _is_tainted(self, driver: str, pool: str, device: Device) -> bool:
        if any(taint.effect in _BLOCKING for taint in device.taints):
            return True
        if self._taint_rules is None:
            return False
        rules: Informer[DeviceTaintRule] = self._taint_rules
        return any(
            rule.spec.taint.effect in _BLOCKING and rule_selects(rule, driver, pool, device.name)
            for rule in rules.store
        )

    async def _clean_up(self) -> None:
        while True:
            await self._clock.sleep(CLEAN_UP_PERIOD)
            for request in self._requests.store.list():
                metadata = request.metadata
                with one_of_many(_LOG, "request %s", metadata.name):
                    if self._clock.now() >= self._expiry(request):
                        requests = self._client.resource(RESOURCEPOOLSTATUSREQUESTS)
                        await requests.delete(metadata.name, uid=metadata.uid)

    def _expiry(self, request: ResourcePoolStatusRequest) -> float:
        """When the request is of no use any more (epoch seconds)."""
        for condition in request.status.conditions if request.status is not None else ():
            if condition.type in ("Complete", "Failed") and condition.last_transition_time is not None:
                return condition.last_transition_time.timestamp + KEEP_ANSWERED
        created = request.metadata.creation_timestamp
        return (created.timestamp if created is not None else self._clock.now()) + KEEP_UNANSWERED
