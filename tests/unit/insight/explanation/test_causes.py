"""Amounts as people write them, and pools whose slices are not as they should be."""

from __future__ import annotations

import pytest

from cathedra.insight.explanation.causes import amount_text, unusual_pools
from cathedra.insight.reading.dumps import read_dump
from tests.insight.building import Object, device, slice_of


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 3 << 30, "3Gi"),
        ("memory", 3 << 20, "3Mi"),
        ("memory", 1000, "1000"),
        ("pods", 110, "110"),
    ],
)
def test_amounts_have_the_unit_that_makes_them_short(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text


def told(*slices: Object) -> list[str]:
    return [text for _, _, text in unusual_pools(read_dump(list(slices)))]


def test_a_whole_pool_is_not_unusual() -> None:
    assert told(slice_of(device("a"), count=2, name="x"), slice_of(device("b"), count=2, name="y")) == []


def test_a_pool_that_lacks_slices_has_old_ones_or_a_device_twice_is_told() -> None:
    (text,) = told(slice_of(device("a"), count=2))
    assert text.startswith("is incomplete: generation 1 has 1 of 2 slices")
    assert told(slice_of(device("a"), generation=1, name="x"), slice_of(device("a"), generation=2, name="y")) == [
        "has 1 slice of an old generation, which count for nothing"
    ]
    assert told(slice_of(device("a"), count=2, name="x"), slice_of(device("a"), count=2, name="y")) == [
        "is invalid: device a appears twice"
    ]
