"""The alarm: pods that the model places and the scheduler does not, and no others."""

from __future__ import annotations

import logging

import msgspec
import pytest

from cathedra.advisor.alarm import JUDGED, LOGGED, REFUSED, UNSEEN
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.struct import replace
from cathedra.insight.explanation.afterfilters import NOT_TRIED
from cathedra.insight.reading.state import Note
from tests.running import run_with
from tests.unit.advisor.world import World, waiting, with_world
from tests.unit.scheduler.objects import node, slice_


def test_with_the_scheduler_stopped_the_node_is_named_within_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        advisor = world.advise()
        await world.clock.sleep(60)
        begun = world.clock.now()
        await world.create(*waiting("a", 2))
        (text,) = await world.until_event("a")
        assert world.clock.now() - begun < 5
        assert text.startswith("the pod waits for 3 s and fits on node n1, but the scheduler default-scheduler has not")
        assert "Not known: extenders" in text
        assert dict(advisor.alarm.counts()) == {("default-scheduler", UNSEEN): 1}

    with caplog.at_level(logging.WARNING, "cathedra.advisor"):
        with_world(body)
    assert sum("--replay: {" in record.getMessage() for record in caplog.records) == 1


@run_with(with_world)
async def test_a_pod_that_the_scheduler_refuses_is_reported_after_the_bound(world: World) -> None:
    advisor = world.advise()
    await world.create(*waiting("a", 2))
    await world.refuse("a")
    await world.clock.sleep(25)
    assert advisor.alarm.current == ()
    (text,) = await world.until_event("a")
    assert "refuses it: no room. Assumed: Kubernetes" in text
    assert dict(advisor.alarm.counts()) == {("default-scheduler", REFUSED): 1}


@run_with(with_world)
async def test_a_busy_scheduler_has_time_for_its_backlog(world: World) -> None:
    advisor = world.advise()
    await world.create(*waiting("a", 1), *waiting("b", 1))
    await world.bind("b")
    await world.clock.sleep(20)
    assert advisor.alarm.current == ()
    await world.api.until(lambda: advisor.alarm.current)


@run_with(with_world)
async def test_the_alarm_ends_when_the_pod_is_bound_or_fits_no_more(world: World) -> None:
    advisor = world.advise()
    await world.create(node("n2"), slice_("n2"), *waiting("a", 2), *waiting("b", 2))
    await world.api.until(lambda: len(advisor.alarm.current) == 2)
    await world.bind("a")
    await world.api.until(lambda: [one.pod.metadata.name for one in advisor.alarm.current] == ["b"])
    for name in ("n1", "n2"):
        await world.change(Node, name, lambda one: replace(one, spec=replace(one.spec, unschedulable=True)))
    await world.api.until(lambda: advisor.alarm.current == ())


@run_with(with_world)
async def test_a_pod_of_another_scheduler_is_judged_with_that_reservation(world: World) -> None:
    world.advise()
    await world.create(*waiting("a", 2, schedulerName="other"))
    (text,) = await world.until_event("a")
    assert "Not known: the rules of other, extenders" in text


def test_many_pods_do_not_hold_up_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        advisor = world.advise()
        for number in range(12):
            await world.create(*waiting(f"p{number}", 1))
        await world.api.until(lambda: len(advisor.alarm.current) == 12)
        assert 0 < logged() <= 2 * LOGGED
        await world.clock.sleep(10)
        assert logged() == 12
        # A change that none of the answers has seen: they are found anew one by one.
        before = advisor.pods.judged
        await world.clock.sleep(30)
        await world.create(node("n9"))
        await world.clock.sleep(0.1)
        advisor.alarm.renew(1)
        assert advisor.pods.judged - before <= JUDGED
        assert len(advisor.alarm.current) == 12

    def logged() -> int:
        return sum("--replay: {" in record.getMessage() for record in caplog.records)

    with caplog.at_level(logging.WARNING, "cathedra.advisor"):
        with_world(body)


@run_with(with_world)
async def test_a_pod_that_waits_for_its_victims_is_none(world: World) -> None:
    advisor = world.advise()
    await world.create(*waiting("a", 2))
    nominated = {"nominated_node_name": "n1"}
    await world.change(Pod, "a", lambda one: replace(one, status=replace(one.status, **nominated)), status=True)
    await world.clock.sleep(60)
    assert advisor.alarm.current == ()


@run_with(with_world)
async def test_an_alarm_names_that_the_gang_of_the_pod_was_not_tried(world: World) -> None:
    await world.create(*waiting("p"))
    advisor = world.advise()
    await world.clock.sleep(2)
    for key, answer in advisor.pods.answers.items():
        explanation = msgspec.structs.replace(answer.explanation, notes=(Note(*NOT_TRIED, "judged alone"),))
        advisor.pods.answers[key] = msgspec.structs.replace(answer, explanation=explanation)
    (text,) = await world.until_event("p")
    assert "Not known: whether the pods of its gang fit together, extenders" in text
