"""Volumes and claims of a pod, tried until they are there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cathedra.api.core.core_v1 import ConfigMap, ConfigMapVolumeSource, EmptyDirVolumeSource, Volume
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.resources import CONFIGMAPS, RESOURCECLAIMS
from tests.running import beside, run_with
from tests.unit.node.fakes import make_claim, make_pod
from tests.unit.node.pods.onepod import OnePod, play

SETTINGS = ConfigMap(metadata=ObjectMeta(name="cm"), data={"colour": "red"})
WITH_SETTINGS = make_pod(volumes=(Volume(name="v", config_map=ConfigMapVolumeSource(name="cm")),))
WITH_CLAIM = make_pod(claims=["c1"])


def test_volumes_are_tried_again_with_growing_pauses(tmp_path: Path) -> None:
    async def body(one: OnePod) -> None:
        preparation = one.preparation()
        await preparation.begin(anew=False)
        making = asyncio.ensure_future(preparation.make_volumes())
        seen = []
        for _ in range(4):
            await one.clock.sleep(4)
            seen.append(len(one.events.messages("FailedMount")))
        assert seen == [2, 3, 3, 4], "at 0, 2, 6 and 14 seconds"
        await one.client.resource(CONFIGMAPS, "default").create(SETTINGS)
        one.wakeup.notify()
        await making
        assert (Path(preparation.volumes["v"]) / "colour").read_text() == "red"
        assert 'configmap "cm" not found' in one.events.messages("FailedMount")[0]

    play(body, WITH_SETTINGS, tmp_path)


def test_files_follow_their_config_map_within_a_minute_and_a_half(tmp_path: Path) -> None:
    async def body(one: OnePod) -> None:
        maps = one.client.resource(CONFIGMAPS, "default")
        made = await maps.create(SETTINGS)
        preparation = one.preparation()
        await preparation.begin(anew=False)
        await preparation.make_volumes()
        async with beside(preparation.refresh_volumes()):
            await maps.update(replace(made, data={"colour": "blue"}))
            await one.clock.sleep(91)
            assert (Path(preparation.volumes["v"]) / "colour").read_text() == "blue"

    play(body, WITH_SETTINGS, tmp_path)


def test_volumes_that_show_no_objects_are_not_refreshed(tmp_path: Path) -> None:
    async def body(one: OnePod) -> None:
        preparation = one.preparation()
        await preparation.begin(anew=False)
        await preparation.make_volumes()
        await asyncio.wait_for(preparation.refresh_volumes(), 1)

    play(body, make_pod(volumes=(Volume(name="v", empty_dir=EmptyDirVolumeSource()),)), tmp_path)


def test_directories_that_a_full_disk_refuses_are_tried_again_and_reported(tmp_path: Path) -> None:
    async def body(one: OnePod) -> None:
        preparation = one.preparation()
        (tmp_path / "pods").write_text("no directory")
        beginning = asyncio.ensure_future(preparation.begin(anew=True))
        await one.clock.sleep(4)
        messages = one.events.messages("FailedToMakePodDataDirectories")
        assert len(messages) == 2, "at 0 and 2 seconds"
        assert messages[0].startswith("error making pod data directories: ")
        (tmp_path / "pods").unlink()
        one.wakeup.notify()
        await beginning
        assert preparation.generation == 2, "one beginning, however often it was tried"

    play(body, make_pod(), tmp_path)


def test_it_is_remembered_how_often_the_pod_began(tmp_path: Path) -> None:
    async def body(one: OnePod) -> None:
        for anew, generation in ((False, 1), (False, 1), (True, 2), (True, 3), (False, 3)):
            preparation = one.preparation()
            await preparation.begin(anew=anew)
            assert preparation.generation == generation

    play(body, make_pod(), tmp_path)


@run_with(lambda test: play(test, WITH_SETTINGS))
async def test_a_node_without_a_disk_has_no_volumes(one: OnePod) -> None:
    preparation = one.preparation()
    await preparation.begin(anew=True)
    await preparation.make_volumes()
    await preparation.refresh_volumes()
    assert (preparation.directories, preparation.volumes, preparation.generation) == (None, {}, 1)


@run_with(lambda test: play(test, WITH_CLAIM, prepare_retry=(5.0, 7.0)))
async def test_claims_are_prepared_again_with_growing_pauses_that_a_driver_can_end(one: OnePod) -> None:
    await one.client.resource(RESOURCECLAIMS, "default").create(make_claim("c1", "p"))
    one.driver.failures = ["busy"] * 4
    pauses: list[float] = []

    async def failed() -> None:
        pauses.append(one.clock.monotonic())

    begun = one.clock.monotonic()
    preparing = asyncio.ensure_future(one.preparation().prepare_claims(failed))
    await one.clock.sleep(16)
    assert [round(at - begun) for at in pauses] == [0, 5, 12]
    one.wakeup.notify()
    await one.clock.sleep(1)
    assert [round(at - begun) for at in pauses] == [0, 5, 12, 16]
    await preparing
    assert round(one.clock.monotonic() - begun) == 23
    (message, *_) = one.events.messages("FailedPrepareDynamicResources")
    assert message.startswith("Failed to prepare dynamic resources: ")
    assert "busy" in message


@run_with(lambda test: play(test, WITH_CLAIM))
async def test_claims_are_let_go_once_and_tried_until_they_are(one: OnePod) -> None:
    await one.client.resource(RESOURCECLAIMS, "default").create(make_claim("c1", "p"))
    preparation = one.preparation()

    async def failed() -> None:
        raise AssertionError("it does not fail")

    await preparation.prepare_claims(failed)
    one.driver.calls.clear()
    one.driver.failures = ["busy", "busy"]
    begun = one.clock.monotonic()
    await preparation.unprepare_claims()
    assert one.driver.calls == [("unprepare", ("c1",))] * 3
    assert 20 <= one.clock.monotonic() - begun <= 30
    assert "busy" in one.events.messages("FailedUnprepareDynamicResources")[0]
    await preparation.unprepare_claims()
    assert len(one.driver.calls) == 3, "there is nothing left to let go of"
