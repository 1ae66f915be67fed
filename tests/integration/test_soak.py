"""The soak of ``python -m tools.soak``: three rounds of it, and its judgement of figures."""

from __future__ import annotations

from dataclasses import replace

from tools.soak.__main__ import soaked
from tools.soak.churn import Churn
from tools.soak.figures import Census, Sample, grown, grown_types, slope

STEADY = Sample(0.0, 100.0, 50, 12, 400, 10.0, 40, {"socket": 50})


async def test_rounds_leave_no_task_and_no_descriptor_and_are_measured() -> None:
    async with soaked("simulated") as cluster:
        churn = Churn(cluster.client)
        await churn.prepare()
        before = await cluster.sample(0.0)
        for number in range(3):
            await churn.round(number)
        after = await cluster.sample(0.0)
        objects = await cluster.objects()
    assert churn.pods == 3 * 4
    assert churn.events >= 3 * 4 * 3
    assert after.tasks <= before.tasks + 4
    assert after.descriptors <= before.descriptors + 4
    assert after.threads <= before.threads + 2
    assert min(after.memory, after.threads, after.store, after.files) > 0
    assert objects["builtins.dict"] > 100


def test_steady_figures_are_no_growth() -> None:
    noisy = [replace(STEADY, memory=100.0 + number % 5, descriptors=50 + number % 3) for number in range(30)]
    assert grown(noisy) == []


def test_a_descriptor_left_by_each_round_is_found_and_named() -> None:
    leaking = [replace(STEADY, descriptors=50 + n, kinds={"socket": 50, "/var/x": n}) for n in range(30)]
    assert grown(leaking) == ["descriptors has grown from 64.5 to 74.5: 19 more /var/x"]


def test_the_slope_of_steady_figures_with_peaks_is_zero_and_that_of_a_leak_is_its_rate() -> None:
    peaks = [replace(STEADY, seconds=20.0 * n, memory=100.0 + (50.0 if n % 7 == 3 else 0.0)) for n in range(30)]
    leaking = [replace(STEADY, seconds=20.0 * n, memory=100.0 + n) for n in range(30)]
    assert slope(peaks, "memory") == 0.0
    assert slope(leaking, "memory") == 1 / 20


def test_an_object_left_by_each_round_is_found_by_its_type() -> None:
    censuses = [Census(rounds, {"a.Leaked": 7 + 2 * rounds, "b.Steady": 500 + rounds % 3}) for rounds in (10, 20, 30)]
    assert grown_types(censuses) == ["40 more objects of a.Leaked, 2.0 for each round"]


def test_a_cache_that_is_full_before_the_last_third_is_no_leak() -> None:
    censuses = [Census(10, {"a.Kept": 50}), Census(20, {"a.Kept": 256}), Census(30, {"a.Kept": 256})]
    assert grown_types(censuses) == []


def test_what_recorders_of_events_keep_may_grow_up_to_its_bound() -> None:
    recorder, kept = "cathedra.client.events.EventRecorder", "cathedra.client.events._Similar"
    within = [Census(rounds, {recorder: 3, kept: 400 * rounds}) for rounds in (10, 20, 30)]
    assert grown_types(within) == []
    beyond = [Census(rounds, {recorder: 3, kept: 500 * rounds}) for rounds in (10, 20, 30)]
    assert grown_types(beyond) == [f"10,000 more objects of {kept}, 500.0 for each round"]
