"""Claims as a narrowed search gets them, and the order in which preferences are given up."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.allocation import Allocator, Features, Inventory, Ledger, SearchAllowance
from cathedra.api.resource import DeviceAttribute, DeviceConstraint, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.narrowing import (
    Narrowing,
    Wish,
    preference_allowance,
    wishes_of,
    with_most_wishes,
)
from cathedra.semantics.groupdomains import AttributeValue, single_values, takes_all
from tests.unit.scheduler.objects import claim, device_class, exactly, node

WISHES: tuple[Wish, ...] = tuple(("uid", DeviceConstraint(match_attribute=f"a/{name}")) for name in "xyz")


def kept(fits: set[str]) -> tuple[str, list[str]]:
    """Return the wishes that are kept if those of ``fits`` can be had together, and the searches that were made."""
    searches: list[str] = []

    def names(wishes: tuple[Wish, ...]) -> str:
        return "".join((wish.match_attribute or "")[-1] for _, wish in wishes)

    async def search(wishes: tuple[Wish, ...], allowance: SearchAllowance) -> str:
        searches.append(names(wishes))
        return names(wishes) if set(names(wishes)) <= fits else ""

    return asyncio.run(with_most_wishes(WISHES, search, bool)) or "", searches


@pytest.mark.parametrize(
    ("fits", "found", "searches"),
    [
        ("xyz", "xyz", ["xyz"]),
        ("yz", "yz", ["xyz", "x", "y", "yz"]),
        ("xz", "xz", ["xyz", "x", "xy", "xz"]),
        ("", "", ["xyz", "x", "y", "z"]),
        ("xy", "xy", ["xyz", "x", "xy"]),
    ],
)
def test_the_most_important_wishes_that_go_together_are_kept(fits: str, found: str, searches: list[str]) -> None:
    assert kept(set(fits)) == (found, searches)


def test_wishes_of_a_claim_that_has_its_devices_are_of_no_use() -> None:
    note = {"scheduling.cathedra.dev/preferred-constraints": '[{"matchAttribute": "a/b"}]'}
    made = claim("c")
    wanting = replace(made, metadata=replace(made.metadata, uid="u", annotations=note))
    ((uid, wish),) = wishes_of([wanting])
    assert (uid, wish.match_attribute) == ("u", "a/b")
    done = from_dict(ResourceClaim, {"metadata": {"annotations": note}, "status": {"allocation": {}}})
    assert wishes_of([done]) == ()


def test_searches_with_preferences_end_at_a_bound_of_their_own() -> None:
    allowance = preference_allowance()
    assert allowance.interrupted is not None
    assert not allowance.interrupted()
    assert any(allowance.interrupted() for _ in range(100_000))


def test_a_claim_for_all_devices_is_not_given_some_of_them() -> None:
    every = claim("c", {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}})
    assert takes_all([every])
    assert not takes_all([claim("d")])
    value = AttributeValue("a/b", DeviceAttribute(string="x"), ("a",))
    assert Narrowing((value,)).claim(every) == every


@pytest.mark.parametrize(
    "value",
    [
        {"string": 'a "quoted" \\ name\n\u00e9\U0001f600'},
        {"int": -3},
        {"bool": True},
        {"bool": False},
        {"version": "1.2.3"},
        {"strings": ["a", "b"]},
        {"ints": [1, 2]},
    ],
    ids=lambda value: next(iter(value)),
)
def test_devices_with_a_value_of_any_type_are_selected(value: dict[str, object]) -> None:
    attribute = from_dict(DeviceAttribute, value)
    *_, single = single_values(attribute)
    devices = [
        {"name": "other", "attributes": {"domain": {"string": "z"}}},
        {"name": "none"},
        {"name": "right", "attributes": {"domain": value}},
    ]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": devices}
    inventory = Inventory()
    inventory.add_slice(from_dict(ResourceSlice, {"metadata": {"name": "n"}, "spec": spec}))
    features = Features(list_type_attributes=True)
    lists = single != attribute
    domain = AttributeValue("gpu.example.com/domain", single, ("gpu.example.com",), lists)
    allocator = Allocator(features, {"gpu": device_class()}, inventory.snapshot(), Ledger().snapshot())
    narrowed = Narrowing((domain,)).claim(claim("c", exactly()))
    (result,) = allocator.allocate(node("n"), [narrowed]).results  # type: ignore[union-attr]  # it fits
    assert [one.device for one in result.devices.results] == ["right"]
