"""Caches keyed by what clients send are bounded in entries and in bytes."""

from __future__ import annotations

from cathedra.api.boundedcache import LONGEST_KEY, BoundedCache, cached_texts
from cathedra.api.field import FieldPath
from tests.requirements import with_memos


@with_memos
def test_a_key_that_is_longer_than_any_name_is_not_kept() -> None:
    cache: BoundedCache[str, int] = BoundedCache(4)
    long = "x" * (LONGEST_KEY + 1)
    assert cache.keep(long, 1, len(long)) == 1
    assert cache.keep("short", 2, len("short")) == 2
    assert dict(cache) == {"short": 2}


def test_entries_and_bytes_have_limits() -> None:
    by_count: BoundedCache[int, int] = BoundedCache(4)
    for number in range(100):
        by_count.keep(number, number, 1)
        assert len(by_count) <= 4
    by_bytes: BoundedCache[int, int] = BoundedCache(1000, most_bytes=1600)
    for number in range(100):
        by_bytes.keep(number, number, 100)
        assert len(by_bytes) <= 16
    by_bytes.keep(-1, -1, 101)
    assert -1 not in by_bytes


@with_memos
def test_a_function_of_long_texts_is_called_each_time() -> None:
    calls: list[str] = []

    @cached_texts(8)
    def length(text: str) -> int:
        calls.append(text)
        return len(text)

    long = "x" * (LONGEST_KEY + 1)
    assert [length("a"), length("a"), length(long), length(long)] == [1, 1, len(long), len(long)]
    assert calls == ["a", long, long]


@with_memos
def test_paths_below_a_key_that_is_too_long_are_not_kept() -> None:
    before = FieldPath.child.cache_info().currsize
    path = FieldPath("spec").key("k" * 100_000)
    for name in ("test_one", "test_two", "test_three"):
        assert path.child(name).index(3) == f"spec[{'k' * 100_000}].{name}[3]"
    assert FieldPath.child.cache_info().currsize == before
