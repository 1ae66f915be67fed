"""Which CPUs of a group a claim gets: whole cores first, near each other, the same ones at every try."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cathedra.drivers.cpu.topology import Cpu

__all__ = ["choose"]


def choose(cpus: Sequence[Cpu], count: int, taken: Collection[int]) -> frozenset[int] | None:
    """``count`` free CPUs of the group; None if there are fewer.

    Whole cores are given out as long as they fit, those of the cache with most free CPUs first, so that a claim shares
    its caches with few others; what remains comes from cores that are in use already, else from the next free one.
    """
    free = [cpu for cpu in cpus if cpu.id not in taken]
    if len(free) < count:
        return None
    by_cache: dict[int, int] = {}
    by_core: dict[int, list[Cpu]] = {}
    for cpu in free:
        by_cache[cpu.cache] = by_cache.get(cpu.cache, 0) + 1
        by_core.setdefault(cpu.core, []).append(cpu)
    whole = sorted(
        (threads for threads in by_core.values() if len(threads) == threads[0].threads),
        key=lambda threads: (-by_cache[threads[0].cache], threads[0].cache, threads[0].id),
    )
    chosen: list[int] = []
    for threads in whole:
        if len(threads) <= count - len(chosen):
            chosen += [cpu.id for cpu in threads]
    rest = sorted((cpu for cpu in free if cpu.id not in chosen), key=lambda cpu: (len(by_core[cpu.core]), cpu.id))
    return frozenset((*chosen, *(cpu.id for cpu in rest[: count - len(chosen)])))
