"""The status of a flow schema reports if its priority level exists."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from cathedra.api.core.flowcontrol_v1 import FlowSchema, PriorityLevelConfiguration
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.bootstrap.danglingschemas import DanglingSchemas
from cathedra.apiserver.bootstrap.flowcontrol import flow_control
from cathedra.apiserver.bootstrap.keeping import ObjectKeeper
from cathedra.client.client import Client
from cathedra.client.resources import resource_ref
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded

SCHEMAS = resource_ref(FlowSchema, "flowschemas", namespaced=False)
LEVELS = resource_ref(PriorityLevelConfiguration, "prioritylevelconfigurations", namespaced=False)


async def condition(api: Guarded, name: str) -> tuple[str, str, str]:
    (found,) = (await api.admin.resource(SCHEMAS).get(name)).status.conditions
    assert found.type == "Dangling"
    return found.status, found.reason, found.message


@run_with(guarded)
async def test_a_schema_dangles_while_its_level_is_not_there(api: Guarded) -> None:
    await ObjectKeeper(api.server.context, list(flow_control())).reconcile()
    schemas = DanglingSchemas(api.server.context)
    running = asyncio.create_task(schemas.run())
    await asyncio.sleep(1)
    named = 'This FlowSchema references the PriorityLevelConfiguration object named "workload-low"'
    assert await condition(api, "service-accounts") == ("False", "Found", f"{named} and it exists")
    await api.admin.resource(LEVELS).delete("workload-low")
    await asyncio.sleep(1)
    assert await condition(api, "service-accounts") == ("True", "NotFound", f"{named} but there is no such object")
    assert (await condition(api, "global-default"))[0] == "False"
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@run_with(guarded)
async def test_the_status_belongs_to_the_server_and_is_written_once(api: Guarded) -> None:
    await ObjectKeeper(api.server.context, list(flow_control())).reconcile()
    tracked = Client(api.admin.transport, clock=api.clock, field_manager="ada").resource(SCHEMAS)
    probes = await tracked.get("probes")
    await tracked.create(FlowSchema(metadata=ObjectMeta(name="mine"), spec=probes.spec))
    schemas = DanglingSchemas(api.server.context)
    assert await schemas.reconcile()
    before = api.server.revision
    assert await schemas.reconcile()
    assert api.server.revision == before
    managers = {one.manager: one.subresource for one in (await tracked.get("mine")).metadata.managed_fields}
    assert managers == {"ada": "", "api-priority-and-fairness-config-consumer-v1": "status"}
