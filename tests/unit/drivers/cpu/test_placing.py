"""Which CPUs of a group a claim gets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.drivers.cpu.placing import choose
from cathedra.drivers.cpu.topology import Cpu


def cpu(number: int) -> Cpu:
    """One of sixteen CPUs: eight cores of two threads, four caches of two cores."""
    core = number % 8
    return Cpu(number, core, core, 0, 0, core // 2, "standard", 2)


CPUS = [cpu(number) for number in range(16)]


def test_whole_cores_come_first() -> None:
    assert choose(CPUS, 2, ()) == {0, 8}
    assert choose(CPUS, 4, ()) == {0, 8, 1, 9}


def test_the_emptiest_cache_is_preferred_so_that_little_is_shared() -> None:
    assert choose(CPUS, 4, {0}) == {2, 10, 3, 11}


def test_a_single_thread_comes_from_a_core_in_use() -> None:
    assert choose(CPUS, 1, {5}) == {13}
    assert choose(CPUS, 3, {5}) == {0, 8, 13}


def test_too_few_are_none() -> None:
    assert choose(CPUS, 17, ()) is None
    assert choose(CPUS, 1, range(16)) is None


@given(st.integers(0, 16), st.sets(st.integers(0, 15)))
def test_as_many_as_asked_for_all_free_and_the_same_at_every_try(count: int, taken: set[int]) -> None:
    chosen = choose(CPUS, count, taken)
    if count > 16 - len(taken):
        assert chosen is None
        return
    assert chosen is not None
    assert len(chosen) == count
    assert not chosen & taken
    assert choose(CPUS[::-1], count, taken) == chosen
