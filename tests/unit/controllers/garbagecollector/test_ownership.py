"""The owner graph, read out of informers."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.struct import Time
from cathedra.client.objects import with_metadata
from cathedra.client.resources import CONFIGMAPS, PODS
from cathedra.controllers.garbagecollector.ownership import (
    FOREGROUND,
    NotServed,
    Ownership,
    OwnerState,
    is_waiting,
)
from tests.unit.inprocess import API, with_api


def config_map(name: str, *owners: OwnerReference) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", owner_references=owners))


def reference(owner: ConfigMap, kind: str = "ConfigMap") -> OwnerReference:
    return OwnerReference(api_version="v1", kind=kind, name=owner.metadata.name, uid=owner.metadata.uid)


def test_owners_and_dependents_find_each_other() -> None:
    async def body(api: API) -> None:
        graph = Ownership(api.informers, (CONFIGMAPS, PODS))
        api.follow()
        maps = api.client.resource(CONFIGMAPS, "default")
        owner = await maps.create(config_map("owner"))
        await maps.create(config_map("dependent", reference(owner)))
        uid = owner.metadata.uid
        await api.until(lambda: list(graph.dependents(uid)))
        (dependent,) = graph.dependents(uid)
        assert dependent.item == ("", "configmaps", "default", "dependent")
        assert graph.get(dependent.item) == dependent
        found = graph.owner(dependent, reference(owner))
        assert found is not None
        assert found.obj.metadata.name == "owner"
        assert graph.state(dependent, reference(owner)) is OwnerState.SOLID

    with_api(body)


def test_a_reference_with_another_uid_or_an_unknown_kind_is_nothing_that_is_known() -> None:
    async def body(api: API) -> None:
        graph = Ownership(api.informers, (CONFIGMAPS,))
        api.follow()
        maps = api.client.resource(CONFIGMAPS, "default")
        owner = await maps.create(config_map("owner"))
        stale = reference(with_metadata(owner, uid="another"))
        await maps.create(config_map("dependent", stale))
        await api.until(lambda: list(graph.dependents("another")))
        (dependent,) = graph.dependents("another")
        assert graph.state(dependent, stale) is OwnerState.UNKNOWN
        with pytest.raises(NotServed, match='no matches for kind "Cart" in version "v1"'):
            graph.resource_of(reference(owner, "Cart"))

    with_api(body)


def test_an_owner_waits_while_it_is_deleted_in_the_foreground() -> None:
    going = with_metadata(config_map("c"), deletion_timestamp=Time(1))
    assert is_waiting(with_metadata(going, finalizers=(FOREGROUND,)))
    assert not is_waiting(going)
    assert not is_waiting(with_metadata(config_map("c"), finalizers=(FOREGROUND,)))
