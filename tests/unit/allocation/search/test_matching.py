"""Matchings, against trying everything."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation.search.matching import GroupMatching, bits, mask_of, matchable, positions


@settings(max_examples=80)
@given(st.lists(st.integers(0, 31), max_size=5))
def test_units_are_matchable_exactly_if_some_choice_gives_each_its_own(units: list[int]) -> None:
    def serve(rest: list[int], taken: int) -> bool:
        return not rest or any(
            rest[0] >> at & 1 and not taken >> at & 1 and serve(rest[1:], taken | 1 << at) for at in range(5)
        )

    assert matchable(units) == (len(units) < 2 or serve(units, 0))


def test_a_matching_moves_along_paths_as_long_as_there_are_units() -> None:
    units = [1 << n | 1 << n + 1 for n in range(1500)]
    assert matchable(units)
    assert matchable([*units, 1])
    assert not matchable([*units, 1, 1])


def seatings(domains: list[int], room: dict[int, int]) -> list[tuple[int, ...]]:
    """All ways to give each group a value of its domain within the room of the values."""
    if not domains:
        return [()]
    return [
        (value, *rest)
        for value, seats in room.items()
        if seats > 0 and domains[0] & value
        for rest in seatings(domains[1:], {**room, value: seats - 1})
    ]


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 15), min_size=1, max_size=5),
    st.fixed_dictionaries({1 << at: st.integers(0, 2) for at in range(4)}),
)
def test_a_group_keeps_exactly_the_values_it_has_in_some_seating_of_all_groups(
    domains: list[int], room: dict[int, int]
) -> None:
    found = GroupMatching(domains, room)
    every = seatings(domains, room)
    assert found.is_complete == bool(every)
    if found.is_complete:
        for group in range(len(domains)):
            assert found.values_of(group) == sum({one[group] for one in every})


def test_a_seating_moves_groups_along_paths_as_long_as_there_are_groups() -> None:
    domains = [1 << n | 1 << n + 1 for n in range(300)]
    room = {1 << n: 1 for n in range(301)}
    assert GroupMatching([*domains, 1], room).is_complete
    assert not GroupMatching([*domains, 1, 1], room).is_complete


def test_a_value_takes_as_many_groups_as_it_has_room_for() -> None:
    assert GroupMatching([1, 1, 3], {1: 2, 2: 1}).values_of(2) == 2
    assert not GroupMatching([1, 1, 1], {1: 2, 2: 1}).is_complete


@given(st.sets(st.integers(0, 200)))
def test_a_mask_holds_its_positions_in_ascending_order(members: set[int]) -> None:
    assert list(positions(mask_of(members))) == sorted(members)


@given(st.integers(0, 2**70))
def test_the_bits_of_a_mask_add_up_to_it(mask: int) -> None:
    assert sum(bits(mask)) == mask
    assert [bit.bit_count() for bit in bits(mask)] == [1] * mask.bit_count()
