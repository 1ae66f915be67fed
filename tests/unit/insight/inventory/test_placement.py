"""Partitions are placed inside their device, to scale and without overlaps."""

from __future__ import annotations

from cathedra.insight.inventory.placement import DeviceSpan, PlacedPartition, placements

SLICES = {("gpu-0", f"memory-slice-{number}"): 1 for number in range(4)} | {("gpu-0", "engines"): 8}


def partition(name: str, *slices: int, engines: int = 0, held: bool = False) -> PlacedPartition:
    needed = {("gpu-0", f"memory-slice-{number}"): 1 for number in slices}
    return PlacedPartition(name, needed | ({("gpu-0", "engines"): engines} if engines else {}), held)


def test_numbered_counters_determine_the_position() -> None:
    found = placements([partition("half", 2, 3, engines=1), partition("whole", 0, 1, 2, 3, engines=8)], SLICES)
    assert found["half"] == DeviceSpan(0.5, 0.5, 1)
    assert found["whole"] == DeviceSpan(0.0, 1.0, 0)


def test_partitions_that_overlap_lie_in_different_lanes() -> None:
    found = placements([partition("a", 0, 1), partition("b", 1, 2), partition("c", 2, 3)], SLICES)
    assert found["a"].lane == found["c"].lane != found["b"].lane


def test_the_share_is_that_of_the_scarcest_counter_and_held_partitions_lie_side_by_side() -> None:
    totals = {("gpu-0", "memory"): 40, ("gpu-0", "engines"): 8}
    needed = {("gpu-0", "memory"): 10, ("gpu-0", "engines"): 1}
    small = [PlacedPartition(f"p{number}", needed, held=number > 1) for number in range(4)]
    found = placements(small, totals)
    assert [found[name].at for name in ("p2", "p3", "p0", "p1")] == [0.0, 0.25, 0.5, 0.75]
    assert {one.size for one in found.values()} == {0.25}
    assert {one.lane for one in found.values()} == {0}


def test_a_partition_that_needs_more_than_there_is_has_the_size_of_the_device() -> None:
    found = placements([PlacedPartition("p", {("gpu-0", "memory"): 80}, held=False)], {("gpu-0", "memory"): 40})
    assert found["p"] == DeviceSpan()
