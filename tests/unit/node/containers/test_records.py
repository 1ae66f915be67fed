"""The state machine of a container: what each event makes of its record (docs/spec/node.md §17.3 and §17.4)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Container, Probe
from cathedra.node.containers.records import (
    BACKOFF_FIRST,
    BACKOFF_MAX,
    BACKOFF_RESET,
    ContainerRecord,
    ContainerStage,
    Waiting,
)
from cathedra.node.runtime.runtime import ContainerRun, PodIdentity

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
