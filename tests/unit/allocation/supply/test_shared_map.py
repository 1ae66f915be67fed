"""Snapshots of a large mapping."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation.supply.shared_map import SharedMap

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 600), st.integers()),
        st.tuples(st.just("discard"), st.integers(0, 600)),
        st.tuples(st.just("snapshot")),
        st.tuples(st.just("copy")),
    ),
    max_size=60,
)


@settings(max_examples=80)
@given(STEPS)
def test_a_snapshot_keeps_what_was_there_while_the_map_goes_on(steps: list[tuple[object, ...]]) -> None:
    entries: SharedMap[int, int] = SharedMap()
    expected: dict[int, int] = {}
    taken = []
    for step in steps:
        match step:
            case ("set", int(key), int(value)):
                entries.set(key, value)
                expected[key] = value
            case ("discard", int(key)):
                entries.discard(key)
                expected.pop(key, None)
            case ("snapshot",):
                taken.append((entries.snapshot(), dict(expected)))
            case ("copy",):
                taken.append((entries.snapshot(), dict(expected)))
                entries = entries.copy()
    taken.append((entries.snapshot(), expected))
    for snapshot, then in taken:
        assert dict(snapshot) == then
        assert len(snapshot) == len(then)
        assert all(
            snapshot.get(key) == then.get(key) and (key in snapshot) == (key in then) for key in range(0, 600, 7)
        )


def test_a_copy_and_its_original_do_not_see_each_other() -> None:
    one: SharedMap[str, int] = SharedMap()
    one.set("a", 1)
    other = one.copy()
    one.set("a", 2)
    other.set("b", 3)
    assert (one.get("a"), one.get("b")) == (2, None)
    assert (other.get("a"), other.get("b")) == (1, 3)
