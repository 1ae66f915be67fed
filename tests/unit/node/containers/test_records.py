"""The state machine of a container: what each event makes of its record (docs/spec/node.md §17.3 and §17.4)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EphemeralContainer,
    Pod,
    PodSpec,
    Probe,
)
from cathedra.node.containers.records import (
    BACKOFF_FIRST,
    BACKOFF_MAX,
    BACKOFF_RESET,
    ContainerRecord,
    ContainerStage,
    ContainerTable,
    Waiting,
    initialized,
    make_plan,
    records_for,
    will_restart,
)
from cathedra.node.runtime.runtime import ContainerRun, PodIdentity
from tests.running import on_virtual_clock

FRESH = ContainerRecord(Container(name="c"))


def run(attempt: int = 0, *, seconds: float | None = None, code: int = 1) -> ContainerRun:
    """A run that still runs, or took ``seconds``."""
    ended = None if seconds is None else 100.0 + seconds
    return ContainerRun(
        f"id-{attempt}",
        PodIdentity("d", "p", "u"),
        "c",
        attempt,
        100.0,
        finished_at=ended,
        exit_code=None if seconds is None else code,
    )


def crash(record: ContainerRecord, now: float, seconds: float = 1.0) -> ContainerRecord:
    """The container begins and ends."""
    attempt = record.next_attempt
    return record.begin(run(attempt), now).end(run(attempt, seconds=seconds), now, restarts=True)


def test_a_container_goes_through_its_stages() -> None:
    assert FRESH.stage is ContainerStage.WAITING
    running = FRESH.begin(run(), 0.0)
    assert (running.stage, running.started, running.ready) == (ContainerStage.RUNNING, True, True)
    stopping = running.stop()
    assert stopping.stage is ContainerStage.STOPPING
    ended = stopping.end(run(seconds=3.0), 5.0, restarts=False)
    assert (ended.stage, ended.started, ended.ready) == (ContainerStage.ENDED, False, False)
    again = ended.begin(run(ended.next_attempt), 6.0)
    assert (again.stage, again.attempt, again.previous) == (ContainerStage.RUNNING, 1, ended.current)


def test_a_probe_decides_what_counts_without_it_at_once() -> None:
    probed = ContainerRecord(Container(name="c", startup_probe=Probe(), readiness_probe=Probe())).begin(run(), 0.0)
    assert (probed.started, probed.ready) == (False, False)
    assert probed.probed(started=True).started
    assert probed.probed(ready=True).ready


def test_restarts_come_at_once_then_after_pauses_that_double_up_to_a_limit() -> None:
    record, pauses = FRESH, []
    for _ in range(8):
        record = crash(record, 0.0)
        pauses.append(record.due)
    assert pauses == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, BACKOFF_MAX, BACKOFF_MAX]


def test_a_long_run_forgets_the_pauses_before() -> None:
    record = crash(crash(crash(FRESH, 0.0), 0.0), 0.0)
    assert crash(record, 1000.0, BACKOFF_RESET).due == 1000.0


def test_failures_to_create_it_are_no_runs_and_do_not_count_once_it_runs() -> None:
    delayed = FRESH.delay(Waiting("CreateContainerError", "no device"), 0.0).delay(
        Waiting("CreateContainerError"), 10.0
    )
    assert (delayed.due, delayed.next_attempt, delayed.stage) == (30.0, 0, ContainerStage.WAITING)
    begun = delayed.begin(run(), 30.0)
    assert (begun.backoff, begun.waiting) == (0.0, None)


def test_a_run_that_could_not_be_started_is_a_run_with_its_reason() -> None:
    why = Waiting("RunContainerError", "no such file")
    failed = FRESH.fail_to_start(run(seconds=0.0, code=128), 0.0, restarts=True, waiting=why)
    assert (failed.stage, failed.waiting, failed.due) == (ContainerStage.ENDED, why, 0.0)
    final = FRESH.fail_to_start(run(seconds=0.0, code=128), 0.0, restarts=False, waiting=why)
    assert final.waiting is None


def test_a_pod_that_begins_anew_keeps_the_count_and_the_last_run() -> None:
    ended = FRESH.begin(run(), 0.0).end(run(seconds=1.0), 1.0, restarts=True)
    renewed = ended.renew()
    assert (renewed.stage, renewed.next_attempt, renewed.previous) == (ContainerStage.WAITING, 1, ended.current)
    assert FRESH.renew() == FRESH


@given(
    st.lists(
        st.tuples(st.sampled_from(["crash", "delay", "renew"]), st.integers(0, 2 * int(BACKOFF_RESET))), max_size=12
    )
)
def test_whatever_happens_attempts_only_grow_and_pauses_stay_within_their_limits(
    events: list[tuple[str, int]],
) -> None:
    record, now = FRESH, 0.0
    for event, seconds in events:
        before = record.next_attempt
        if event == "crash":
            record = crash(record, now, seconds)
            assert record.next_attempt == before + 1
        elif event == "delay":
            record = record.delay(Waiting("CreateContainerError"), now)
            assert record.next_attempt == before
        else:
            record = record.renew()
            assert record.next_attempt == before
        assert 0.0 <= max(record.due - now, 0.0) <= BACKOFF_MAX
        assert record.backoff == 0.0 or BACKOFF_FIRST <= record.backoff <= BACKOFF_MAX
        now += seconds


def test_a_table_keeps_the_order_of_the_spec_and_adds_behind_it() -> None:
    table = ContainerTable(ContainerRecord(Container(name=name)) for name in "ab")
    table.put(ContainerRecord(Container(name="debug"), ephemeral=True))
    table.put(table["a"].begin(run(), 0.0))
    assert [record.name for record in table.all] == ["a", "b", "debug"]
    assert table["a"].running
    assert table.get("z") is None


@on_virtual_clock
async def test_the_end_of_a_container_wakes_those_that_wait_for_it_and_no_other_change_does() -> None:
    table = ContainerTable([ContainerRecord(Container(name="c")).begin(run(), 0.0)])
    waiting = asyncio.create_task(table.until_ended("c"))
    await asyncio.sleep(1)
    table.put(table["c"].stop())
    await asyncio.sleep(1)
    assert not waiting.done()
    table.put(table["c"].end(run(seconds=2.0), 2.0, restarts=False))
    await asyncio.wait_for(waiting, 1)
    await table.until_ended("c")


def state(name: str, code: int | None) -> ContainerRun:
    finished = None if code is None else 5.0
    return ContainerRun(name, PodIdentity("d", "p", "u"), name, 0, 1.0, finished_at=finished, exit_code=code)


def pod(*, init: tuple[Container, ...] = (), policy: str = "Never", names: str = "ab", **spec: Any) -> Pod:
    containers = tuple(Container(name=name) for name in names)
    return Pod(spec=PodSpec(init_containers=init, containers=containers, restart_policy=policy, **spec))


def planned(of: Pod, codes: dict[str, int | None]) -> tuple[str, ...] | None:
    """What is started when these containers run (None) or have ended with a code; None: the pod has run its course."""
    records = records_for(of)
    for name, code in codes.items():
        records[name] = msgspec.structs.replace(records[name], current=state(name, code), started=code is None)
    plan = make_plan(of, tuple(records.values()), 0.0)
    return None if plan.finished else plan.start


SIDECAR = Container(name="side", restart_policy="Always")
FIRST, SECOND = Container(name="first"), Container(name="second")


@pytest.mark.parametrize(
    ("codes", "started"),
    [
        ({}, ("first",)),
        ({"first": None}, ()),
        ({"first": 1}, None),
        ({"first": 0}, ("side",)),
        ({"first": 0, "side": None}, ("second",)),
        ({"first": 0, "side": None, "second": 0}, ("a", "b")),
        ({"first": 0, "side": 1, "second": 0}, ("side",)),
        ({"first": 0, "side": None, "second": 0, "a": None, "b": 0}, ()),
        ({"first": 0, "side": 0, "second": 0, "a": None, "b": None}, ("side",)),
        ({"first": 0, "side": None, "second": 0, "a": 0, "b": 3}, None),
    ],
)
def test_init_containers_come_in_order_sidecars_stay_and_the_rest_runs_together(
    codes: dict[str, int | None], started: tuple[str, ...] | None
) -> None:
    assert planned(pod(init=(FIRST, SIDECAR, SECOND)), codes) == started


def test_a_failed_init_container_is_started_again_where_the_policy_says_so() -> None:
    assert planned(pod(init=(FIRST,), policy="OnFailure"), {"first": 1}) == ("first",)


def test_an_ephemeral_container_runs_once_and_nothing_waits_for_it() -> None:
    curious = pod(ephemeral_containers=(EphemeralContainer(name="debug", image="x", tty=True),), policy="Always")
    assert planned(curious, {"a": None, "b": None}) == ("debug",)
    assert planned(curious, {"a": None, "b": None, "debug": 1}) == ()
    finished = pod(ephemeral_containers=(EphemeralContainer(name="debug"),))
    assert planned(finished, {"a": 0, "b": 0, "debug": None}) is None
    records = tuple(records_for(curious).values())
    assert records[-1].container == Container(name="debug", image="x", tty=True)
    assert initialized(records)


@pytest.mark.parametrize(
    ("policy", "own", "code", "again"),
    [
        ("Always", None, 0, True),
        ("OnFailure", None, 0, False),
        ("OnFailure", None, 1, True),
        ("Never", None, 1, False),
        ("Never", "OnFailure", 1, True),
        ("Always", "Never", 1, False),
    ],
)
def test_a_containers_own_policy_comes_before_the_pods(policy: str, own: str | None, code: int, again: bool) -> None:
    record = ContainerRecord(Container(name="a", restart_policy=own))
    assert will_restart(pod(policy=policy), record, code) == again


@pytest.mark.parametrize(("operator", "code", "again"), [("In", 42, True), ("In", 1, False), ("NotIn", 1, True)])
def test_rules_on_exit_codes_start_again_what_the_policy_would_leave(operator: str, code: int, again: bool) -> None:
    codes = ContainerRestartRuleOnExitCodes(operator=operator, values=(42,))
    rule = ContainerRestartRule(action="Restart", exit_codes=codes)
    record = ContainerRecord(Container(name="a", restart_policy="Never", restart_policy_rules=(rule,)))
    assert will_restart(pod(policy="Never"), record, code) == again


@settings(max_examples=80)
@given(
    st.dictionaries(st.sampled_from(["first", "side", "second", "a", "b"]), st.sampled_from([None, 0, 1])),
    st.sampled_from(["Always", "OnFailure", "Never"]),
)
def test_nothing_that_runs_is_started_and_a_pod_that_goes_on_forever_never_finishes(
    codes: dict[str, int | None], policy: str
) -> None:
    started = planned(pod(init=(FIRST, SIDECAR, SECOND), policy=policy), codes)
    assert not {name for name, code in codes.items() if code is None} & set(started or ())
    if policy == "Always":
        assert started is not None
