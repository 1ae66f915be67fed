"""Kinds that come, change and go."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import from_dict
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.custom.conversion import Caller
from cathedra.apiserver.customresources import ServedDefinitions
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.storage.protocol import MemoryStorage
from tests.unit.apiserver.custom.test_custom_resources import definition

CONFIGS = GroupResource("d.x", "gpuconfigs")


@dataclass
class Serving:
    registry: Registry
    catalog: Catalog
    served: ServedDefinitions


@pytest.fixture
async def serving() -> Serving:
    registry, catalog = Registry(MemoryStorage(), ()), Catalog(())
    await registry.load()
    return Serving(registry, catalog, ServedDefinitions(registry, catalog, Caller(_post, random.Random(1))))


async def _post(config: Any, review: dict[str, Any], timeout_seconds: float) -> bytes:
    raise AssertionError("no definition here converts")


def made(generation: int = 1, name: str = "gpuconfigs.d.x", **changes: Any) -> CustomResourceDefinition:
    obj = definition(**changes)
    obj["metadata"] |= {"name": name, "generation": generation}
    return from_dict(CustomResourceDefinition, obj)


async def test_what_is_served_is_in_catalog_and_registry_until_it_is_withdrawn(serving: Serving) -> None:
    serving.served.serve(made())
    assert serving.catalog.definition(CONFIGS) is serving.registry.table(CONFIGS).definition
    assert serving.served.resource_of("gpuconfigs.d.x") == CONFIGS
    serving.served.withdraw("gpuconfigs.d.x")
    assert serving.catalog.definition(CONFIGS) is None
    assert CONFIGS not in serving.registry.by_resource
    assert serving.served.resource_of("gpuconfigs.d.x") is None


async def test_a_new_generation_takes_the_place_of_the_one_before(serving: Serving) -> None:
    serving.served.serve(made())
    changed = made(2, scope="Cluster")
    assert serving.served.is_current(made())
    assert not serving.served.is_current(changed)
    serving.served.serve(changed)
    assert serving.served.is_current(changed)
    assert not serving.registry.table(CONFIGS).definition.namespaced


async def test_a_definition_is_in_conflict_with_the_names_of_others_alone(serving: Serving) -> None:
    serving.served.serve(made())
    assert serving.served.accepted_names(made(2))[1] is None
    names = {"plural": "others", "singular": "other", "kind": "Other", "listKind": "Others", "shortNames": ["gc"]}
    other = made(name="others.d.x", names=names)
    assert serving.served.accepted_names(other)[1] == ("ShortNamesConflict", '"gc" is already in use')
