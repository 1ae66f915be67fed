"""The condition Dangling of flow schemas: whether the priority level that one names is there.

Written whenever schemas or levels change, as the API server of Kubernetes does. Priority levels have no such condition.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final

import msgspec

from cathedra.api.core.flowcontrol_v1 import FlowSchema, FlowSchemaCondition
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.apiserver.admission.plugin import AdmissionChain
from cathedra.apiserver.authentication.user import LOOPBACK
from cathedra.apiserver.ownership.tracking import tracked
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.update import change
from cathedra.semantics.conditions import find_condition, with_condition

_LOG: Final = logging.getLogger(__name__)
_GROUP: Final = "flowcontrol.apiserver.k8s.io"
_SCHEMAS: Final = GroupResource(_GROUP, "flowschemas")
_LEVELS: Final = GroupResource(_GROUP, "prioritylevelconfigurations")
_MANAGER: Final = "api-priority-and-fairness-config-consumer-v1"
_DANGLING: Final = "Dangling"
RETRY_SECONDS: Final = 10.0
"""Seconds until a condition that could not be written is written again."""


class DanglingSchemas:
    """Keeps the condition Dangling of all flow schemas; `run` until cancelled."""

    def __init__(self, server: ServerContext) -> None:
        self._server = msgspec.structs.replace(server, admission=AdmissionChain(()))
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Check all schemas now and after every change."""
        for resource in (_SCHEMAS, _LEVELS):
            self._server.registry.observe(resource, lambda _: self._changed.set())
        while True:
            self._changed.clear()
            if not await self.reconcile():
                # Without a pause the writes would be repeated in a loop while the store refuses them.
                await self._server.clock.sleep(RETRY_SECONDS)
                continue
            await self._changed.wait()

    async def reconcile(self) -> bool:
        """Write the conditions that differ; return True if all could be written."""
        written = True
        for entry in self._server.registry.table(_SCHEMAS).select(Selection("")):
            try:
                await self._settle(entry.object)
            except (StatusError, StorageError) as error:
                _LOG.warning("the status of flow schema %s could not be written: %s", entry.key, error)
                written = False
        return written

    async def _settle(self, schema: FlowSchema) -> None:
        if _condition(schema, self._server.registry, 0) is None:
            return
        now = self._server.clock.now()
        call = self._call(schema.metadata.name)

        def settled(entry: StoredObject) -> Any:
            current: FlowSchema = entry.object
            wanted = _condition(current, self._server.registry, now)
            if wanted is None:
                return current
            status = replace(current.status, conditions=with_condition(current.status.conditions, wanted))
            return tracked(call, current, replace(current, status=status), now)

        await change(self._server, call, settled)

    def _call(self, name: str) -> Call:
        definition = self._server.registry.table(_SCHEMAS).definition
        return Call.on(
            definition,
            definition.versions[0],
            user=LOOPBACK,
            verb="patch",
            name=name,
            subresource="status",
            field_manager=_MANAGER,
        )


def _condition(schema: FlowSchema, registry: Registry, now: float) -> FlowSchemaCondition | None:
    """Return the condition that a schema should have; None if it has it."""
    level = schema.spec.priority_level_configuration.name
    named = f"This FlowSchema references the PriorityLevelConfiguration object named {json.dumps(level)}"
    if registry.find(_LEVELS, level) is None:
        facts = ("True", "NotFound", f"{named} but there is no such object")
    else:
        facts = ("False", "Found", f"{named} and it exists")
    found = find_condition(schema.status.conditions, _DANGLING)
    if found is not None and (found.status, found.reason, found.message) == facts:
        return None
    status, reason, message = facts
    return FlowSchemaCondition(
        type=_DANGLING, status=status, last_transition_time=Time(now), reason=reason, message=message
    )
