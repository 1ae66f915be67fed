"""Controller revisions: the versions of a template that are remembered."""

from __future__ import annotations

from cathedra.api.core.apps_v1 import StatefulSet
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.resources import CONTROLLERREVISIONS
from cathedra.controllers.workloads.revisions import Revisions
from tests.running import run_with
from tests.unit.controllers.workloads.objects import template
from tests.unit.inprocess import API, with_api

OWNER = StatefulSet(metadata=ObjectMeta(name="web", namespace="default", uid="uid-web"))


@run_with(with_api)
async def test_a_template_is_remembered_once_and_found_again_by_its_hash(api: API) -> None:
    revisions = Revisions(api.client, api.informers)
    api.follow()
    first = await revisions.current(OWNER, template("v1"))
    await api.until(lambda: len(revisions.informer.store) == 1)
    assert await revisions.current(OWNER, template("v1")) == first
    second = await revisions.current(OWNER, template("v2"))
    await api.until(lambda: len(revisions.informer.store) == 2)
    assert revisions.template(OWNER, first) == template("v1")
    assert revisions.template(OWNER, second) == template("v2")
    assert revisions.template(OWNER, "unknown") is None


@run_with(with_api)
async def test_a_roll_back_makes_the_old_revision_the_newest(api: API) -> None:
    revisions = Revisions(api.client, api.informers)
    api.follow()
    for number, image in enumerate(("v1", "v2"), 1):
        await revisions.current(OWNER, template(image))
        await api.until(lambda number=number: len(revisions.informer.store) == number)
    back = await revisions.current(OWNER, template("v1"))
    found = await api.client.resource(CONTROLLERREVISIONS, "default").get(f"web-{back}")
    assert found.revision == 3


@run_with(with_api)
async def test_of_the_unused_revisions_only_the_newest_are_kept(api: API) -> None:
    revisions = Revisions(api.client, api.informers)
    api.follow()
    names = [f"web-{await revisions.current(OWNER, template('v0'))}"]
    for number in range(1, 5):
        await api.until(lambda number=number: len(revisions.informer.store) == number)
        names.append(f"web-{await revisions.current(OWNER, template(f'v{number}'))}")
    await api.until(lambda: len(revisions.informer.store) == 5)
    await revisions.forget(OWNER, 1, {names[0], names[4]})
    assert await remembered(api) == {names[0], names[3], names[4]}
    await api.until(lambda: len(revisions.informer.store) == 3)
    await revisions.forget(OWNER, 0, {names[4]})
    assert await remembered(api) == {names[4]}


@run_with(with_api)
async def test_where_used_revisions_count_one_more_unused_one_is_deleted_for_each(api: API) -> None:
    revisions = Revisions(api.client, api.informers)
    api.follow()
    names = [f"web-{await revisions.current(OWNER, template('v0'))}"]
    for number in range(1, 5):
        await api.until(lambda number=number: len(revisions.informer.store) == number)
        names.append(f"web-{await revisions.current(OWNER, template(f'v{number}'))}")
    await api.until(lambda: len(revisions.informer.store) == 5)
    await revisions.forget_beyond(OWNER, 2, names[4], {names[0]})
    assert await remembered(api) == {names[0], names[3], names[4]}


async def remembered(api: API) -> set[str]:
    page = await api.client.resource(CONTROLLERREVISIONS, "default").list()
    return {revision.metadata.name for revision in page.items}
