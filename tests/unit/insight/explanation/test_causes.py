"""Amounts as people write them, and pools whose slices are not as they should be."""

from __future__ import annotations

import pytest

from cathedra.insight.explanation.causes import unusual_pools
from cathedra.insight.explanation.explain import explain
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.rendering import amount_text
from tests.insight.building import Object, claim, device, device_class, node, request, slice_of


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


def test_pairs_that_need_more_roots_than_there_are_are_one_cause_for_all_nodes() -> None:
    """16 pairs of a GPU and a NIC, one NIC on a foreign root: one cause, and no search that takes long."""
    root = "resource.kubernetes.io/pcieRoot"
    dump = [device_class("gpu"), device_class("nic", 'device.driver == "nic.example.com"')]
    for name in ("n1", "n2"):
        on_root = [device(f"gpu-{n}", **{root: f"{name}-{n}"}) for n in range(16)]
        beside = [device(f"nic-{n}", **{root: f"{name}-{n or 99}"}) for n in range(16)]
        dump += [node(name), slice_of(*on_root, node=name), slice_of(*beside, node=name, driver="nic.example.com")]
    asked = [request(f"{kind}{n}", kind) for kind in ("gpu", "nic") for n in range(16)]
    tied = [{"requests": [f"gpu{n}", f"nic{n}"], "matchAttribute": root} for n in range(16)]
    found = explain(read_dump([*dump, claim("pairs", *asked, constraints=tied)]), "claim/pairs")
    (cause,) = found.causes
    assert cause.nodes is None
    assert cause.text == (
        f"request 'gpu0' needs 1: it fits alone, but 16 constraints matchAttribute {root}, one of them over gpu0 and "
        "nic0, need one value each; there are devices for 15 (n1-0: too few for nic0; n1-99: too few for gpu0)"
    )
    assert f"drop the constraint matchAttribute {root} over gpu0 and nic0 of claim default/pairs" in [
        one.text for one in found.changes
    ]
