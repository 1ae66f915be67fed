"""Controller revisions: the versions of a template that are remembered."""

from __future__ import annotations

from cathedra.api.core.apps_v1 import StatefulSet
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.resources import CONTROLLERREVISIONS
from cathedra.controllers.workloads.revisions import Revisions
from tests.unit.controllers.workloads.objects import template
from tests.unit.inprocess import API, with_api

OWNER = StatefulSet(metadata=ObjectMeta(name="web", namespace="default", uid="uid-web"))


def test_a_template_is_remembered_once_and_found_again_by_its_hash() -> None:
    async def body(api: API) -> None:
        revisions = Revisions(api.client, api.informers)
        api.follow()
        first = await revisions.current(OWNER, template("v1"), 10)
        await api.until(lambda: len(revisions.informer.store) == 1)
        assert await revisions.current(OWNER, template("v1"), 10) == first
        second = await revisions.current(OWNER, template("v2"), 10)
        await api.until(lambda: len(revisions.informer.store) == 2)
        assert revisions.template(OWNER, first) == template("v1")
        assert revisions.template(OWNER, second) == template("v2")
        assert revisions.template(OWNER, "unknown") is None

    with_api(body)


def test_a_roll_back_makes_the_old_revision_the_newest() -> None:
    async def body(api: API) -> None:
        revisions = Revisions(api.client, api.informers)
        api.follow()
        for number, image in enumerate(("v1", "v2"), 1):
            await revisions.current(OWNER, template(image), 10)
            await api.until(lambda number=number: len(revisions.informer.store) == number)
        back = await revisions.current(OWNER, template("v1"), 10)
        found = await api.client.resource(CONTROLLERREVISIONS, "default").get(f"web-{back}")
        assert found.revision == 3

    with_api(body)


def test_no_more_are_kept_than_wanted() -> None:
    async def body(api: API) -> None:
        revisions = Revisions(api.client, api.informers)
        api.follow()
        resource = api.client.resource(CONTROLLERREVISIONS, "default")
        for number in range(5):
            await revisions.current(OWNER, template(f"v{number}"), 1)
            there = {one.metadata.name for one in (await resource.list()).items}
            await api.until(lambda there=there: {one.metadata.name for one in revisions.informer.store} == there)
        kept = sorted(one.revision for one in (await resource.list()).items)
        assert kept[-1] == 5
        assert len(kept) <= 3

    with_api(body)
