"""Background work of a server."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.api.core.core_v1 import ConfigMap, Event, ObjectReference
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.apiserver.bootstrap.expiry import EVENT_SECONDS, PASS_SECONDS, TRIM_SECONDS
from cathedra.apiserver.config import ServeOptions
from cathedra.client.resources import CONFIGMAPS, EVENTS
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded

ADVERTISED = ServeOptions(advertised="127.0.0.1")


@run_with(guarded)
async def test_events_end_after_their_hour(api: Guarded) -> None:
    await api.server.serve(ADVERTISED)
    pod = ObjectReference(kind="Pod", name="p", namespace="default")
    event = Event(metadata=ObjectMeta(name="a", namespace="default"), involved_object=pod, reason="Tried")
    await api.admin.resource(EVENTS, "default").create(event)
    assert api.server.context.registry.count(GroupResource("", "events")) == 1
    await asyncio.sleep(EVENT_SECONDS + PASS_SECONDS)
    assert api.server.context.registry.count(GroupResource("", "events")) == 0


@run_with(guarded)
async def test_history_ends_after_ten_minutes(api: Guarded) -> None:
    await api.server.serve(ADVERTISED)
    maps = api.admin.resource(CONFIGMAPS, "default")
    start = (await maps.create(ConfigMap(metadata=ObjectMeta(name="a")))).metadata.resource_version
    await maps.create(ConfigMap(metadata=ObjectMeta(name="b")))
    await asyncio.sleep(2 * TRIM_SECONDS + 1)
    with pytest.raises(StatusError, match="too old resource version"):
        async with maps.watch(resource_version=start):
            pass
