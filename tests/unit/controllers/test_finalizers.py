"""One finalizer is taken off, and no write of others is lost."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import CONFIGMAPS
from cathedra.controllers.finalizers import remove_finalizer
from tests.running import run_with
from tests.unit.inprocess import API, with_api


def config_map(*finalizers: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="c", namespace="default", finalizers=finalizers))


@run_with(with_api)
async def test_the_others_stay_and_changes_of_content_in_between_do_not_matter(api: API) -> None:
    maps = api.client.resource(CONFIGMAPS, "default")
    created = await maps.create(config_map("a/a", "b/b"))
    await maps.update(replace(created, data={"new": "content"}))
    left = await remove_finalizer(maps, created, "a/a")
    assert left is not None
    assert (left.metadata.finalizers, left.data) == (("b/b",), {"new": "content"})
    last = await remove_finalizer(maps, left, "b/b")
    assert last is not None
    assert last.metadata.finalizers == ()
    assert await remove_finalizer(maps, last, "b/b") is last, "nothing to do"


@run_with(with_api)
async def test_another_change_of_the_finalizers_is_a_refusal(api: API) -> None:
    maps = api.client.resource(CONFIGMAPS, "default")
    created = await maps.create(config_map("a/a"))
    await maps.update(with_metadata(created, finalizers=("a/a", "c/c")))
    with pytest.raises(StatusError):
        await remove_finalizer(maps, created, "a/a")
    assert (await maps.get("c")).metadata.finalizers == ("a/a", "c/c")


@run_with(with_api)
async def test_an_object_that_is_gone_has_no_finalizers(api: API) -> None:
    assert await remove_finalizer(api.client.resource(CONFIGMAPS, "default"), config_map("a/a"), "a/a") is None
