"""Caches by slot."""

from __future__ import annotations

from cathedra.allocation.supply.caches import Caches, CacheSlot, LRUCache


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


def test_of_what_was_made_lately_the_least_recently_asked_for_gives_way() -> None:
    recent: LRUCache[str, list[str]] = LRUCache(2)
    made = {key: recent.get(key, lambda key=key: [key]) for key in "ab"}
    assert recent.get("a", list) is made["a"]
    recent.get("c", list)
    assert recent.get("a", list) is made["a"]
    assert recent.get("b", list) is not made["b"]
