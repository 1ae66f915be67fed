"""Cron jobs: when they are due, and what is made of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.batch_v1 import CronJob, Job, JobCondition
from cathedra.api.struct import Time, from_dict, replace
from cathedra.client.resources import CRONJOBS, JOBS
from cathedra.controllers.job.cronjob import CronJobController
from cathedra.kinds.batch.cronjobs import ScheduleError, most_recent, parse_schedule
from tests.running import run_with
from tests.unit.controllers.world import World, play


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def shown(moment: float | None, zone: str = "UTC") -> str:
    assert moment is not None
    return datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M")


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("*/5 * * * *", "2026-01-01T00:00", "2026-01-01T00:05"),
        ("30 4 1,15 * *", "2026-01-01T04:30", "2026-01-15T04:30"),
        ("0 22 * * mon-fri", "2026-01-02T23:00", "2026-01-05T22:00"),
        ("0 0 13 * fri", "2026-01-01T00:00", "2026-01-02T00:00"),
        ("15 10 ? JAN/3 *", "2026-01-31T11:00", "2026-04-01T10:15"),
        ("10-20/5 * * * *", "2026-01-01T00:15", "2026-01-01T00:20"),
        ("@monthly", "2026-01-01T00:00", "2026-02-01T00:00"),
        ("@weekly", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00", "2028-02-29T00:00"),
        ("@every 1h30m", "2026-01-01T00:00", "2026-01-01T01:30"),
    ],
)
def test_the_next_time(schedule: str, after: str, expected: str) -> None:
    assert shown(parse_schedule(schedule).after(at(after))) == expected


def test_a_day_that_never_comes_has_no_time() -> None:
    assert parse_schedule("0 0 30 2 *").after(at("2026-01-01T00:00")) is None


def test_clocks_that_jump_leave_times_out_or_have_them_twice() -> None:
    zone = ZoneInfo("Europe/Berlin")
    nightly = parse_schedule("30 2 * * *", zone)
    assert shown(nightly.after(at("2026-03-28T03:00", "Europe/Berlin")), "Europe/Berlin") == "2026-03-30T02:30"
    first = nightly.after(at("2026-10-25T00:00", "Europe/Berlin"))
    assert first is not None
    second = nightly.after(first)
    assert second is not None
    assert second - first == 3600


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@often", "unrecognized descriptor: @often"),
    ],
)
def test_what_is_no_schedule(schedule: str, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        parse_schedule(schedule)
    assert str(error.value) == why


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["*/7 * * * *", "0 */5 * * *", "13 3 * * 2", "0 0 1 * *", "@every 17m"]),
    st.integers(0, 40 * 86400),
    st.integers(0, 40 * 86400),
)
def test_the_most_recent_time_is_the_last_of_all(schedule: str, earliest: int, length: int) -> None:
    parsed = parse_schedule(schedule)
    start, now = float(earliest), float(earliest + length)
    expected, moment = None, parsed.after(start)
    while moment is not None and moment <= now:
        expected, moment = moment, parsed.after(moment)
    if schedule.startswith("@every") and expected is not None:
        found = most_recent(parsed, start, now)[0]
        assert found is not None
        assert now - found < 17 * 60
        return
    assert most_recent(parsed, start, now)[0] == expected


async def make(world: World, **spec: Any) -> None:
    template = {
        "metadata": {"labels": {"made": "by-cron"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    }
    body = {"metadata": {"name": "cron", "namespace": "default"}, "spec": {"jobTemplate": template, **spec}}
    await world.create(CRONJOBS, from_dict(CronJob, body))


async def end(world: World, name: str, kind: str = "Complete") -> None:
    now = Time(world.clock.now())

    def ended(job: Job) -> Job:
        before = JobCondition(type="SuccessCriteriaMet" if kind == "Complete" else "FailureTarget", status="True")
        conditions = (before, JobCondition(type=kind, status="True", last_transition_time=now))
        done = now if kind == "Complete" else None
        status = replace(job.status, conditions=conditions, start_time=now, completion_time=done)
        return replace(job, status=status)

    await world.change(JOBS, name, ended, status=True)


@run_with(lambda test: play(CronJobController, test))
async def test_jobs_are_made_when_they_are_due_and_old_ones_go(world: World) -> None:
    await make(world, schedule="*/10 * * * *", successfulJobsHistoryLimit=2)
    begin = int(world.clock.now()) // 60
    await world.quiet()
    for number in range(1, 5):
        await world.clock.sleep(600)
        name = f"cron-{begin + number * 10}"
        assert name in await world.names(JOBS)
        status = (await world.of(CRONJOBS).get("cron")).status
        assert [reference.name for reference in status.active] == [name]
        await end(world, name)
    await world.quiet()
    assert await world.names(JOBS) == [f"cron-{begin + 30}", f"cron-{begin + 40}"]
    job = await world.of(JOBS).get(f"cron-{begin + 40}")
    assert job.metadata.labels["made"] == "by-cron"
    stamp = datetime.fromtimestamp((begin + 40) * 60, UTC).isoformat().replace("+00:00", "Z")
    assert job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == stamp
    status = (await world.of(CRONJOBS).get("cron")).status
    assert status.active == ()
    assert status.last_successful_time is not None
    told = [reason for _, reason, _ in await world.events()]
    assert set(told) == {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"}


@pytest.mark.parametrize(("policy", "jobs"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
@run_with(lambda test: play(CronJobController, test))
async def test_what_happens_while_the_last_job_still_runs(world: World, *, policy: str, jobs: int) -> None:
    await make(world, schedule="* * * * *", concurrencyPolicy=policy)
    await world.clock.sleep(190)
    assert len(await world.names(JOBS)) == jobs
    told = [reason for _, reason, _ in await world.events()]
    assert ("JobAlreadyActive" in told) == (policy == "Forbid")


@run_with(lambda test: play(CronJobController, test))
async def test_suspended_and_broken_ones_make_nothing(world: World) -> None:
    await make(world, schedule="* * * * *", suspend=True)
    await world.clock.sleep(200)
    assert await world.names(JOBS) == []


@run_with(lambda test: play(CronJobController, test))
async def test_a_new_schedule_counts_from_now_on(world: World) -> None:
    await make(world, schedule="0 0 1 1 *")
    await world.clock.sleep(3600)
    await world.change(CRONJOBS, "cron", lambda c: replace(c, spec=replace(c.spec, schedule="*/10 * * * *")))
    await world.clock.sleep(5)
    assert await world.names(JOBS) == []
    due = (int(world.clock.now()) // 600 + 1) * 600
    await world.clock.sleep(due - world.clock.now() + 5)
    assert await world.names(JOBS) == [f"cron-{due // 60}"]


@run_with(lambda test: play(CronJobController, test))
async def test_a_job_that_is_gone_is_told_and_no_longer_active(world: World) -> None:
    await make(world, schedule="0 * * * *")
    await world.clock.sleep(3605)
    (name,) = await world.names(JOBS)
    await world.of(JOBS).delete(name, propagation_policy="Background")
    await world.quiet()
    assert (await world.of(CRONJOBS).get("cron")).status.active == ()
    assert ("Normal", "MissingJob", f"Active job went missing: {name}") in await world.events()
