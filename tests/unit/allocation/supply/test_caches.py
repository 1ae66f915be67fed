"""Caches by slot."""

from __future__ import annotations

from cathedra.allocation.supply.caches import Caches, CacheSlot


def test_a_slot_keeps_what_it_made_first() -> None:
    slot: CacheSlot[dict[str, int]] = CacheSlot("numbers", dict)
    caches = Caches()
    caches.of(slot)["a"] = 1
    assert caches.of(slot) == {"a": 1}
    assert caches.of(slot) is caches.of(slot)


def test_slots_and_holders_are_apart() -> None:
    one: CacheSlot[list[int]] = CacheSlot("one", list)
    other: CacheSlot[list[int]] = CacheSlot("one", list)
    first, second = Caches(), Caches()
    first.of(one).append(1)
    assert first.of(other) == []
    assert second.of(one) == []


def test_a_forgotten_slot_is_made_again() -> None:
    slot: CacheSlot[list[int]] = CacheSlot("list", list)
    caches = Caches()
    caches.of(slot).append(1)
    caches.forget(slot)
    assert caches.of(slot) == []
