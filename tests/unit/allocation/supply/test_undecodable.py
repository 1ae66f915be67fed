"""Objects that cannot be decoded are never treated as absent by the allocator."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.allocation import Allocation, FatalError, NodeError, Refusal
from cathedra.allocation.supply.undecodable import effect_of
from cathedra.api.undecodable import Undecodable, identify
from tests.unit.allocation.building import World, claim, device, exactly, held, node, resource_slice

ON_ALDER = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["alder"]}]}]}


def undecodable(kind: str, value: dict[str, Any], name: str = "odd") -> Undecodable:
    body = json.dumps({"kind": kind, "metadata": {"name": name, "namespace": "ns", "uid": name}, **value}).encode()
    return identify(kind, body, ValueError("Expected `array`, got `null` - at `$.spec.new`"))


def odd_claim(*results: Any, selector: Any = None) -> Undecodable:
    """A claim with these results; one that is a text is a device of pool «p»."""
    entries = [{"driver": "drv", "pool": "p", "device": one} if isinstance(one, str) else one for one in results]
    return undecodable(
        "ResourceClaim", {"status": {"allocation": {"devices": {"results": entries}, "nodeSelector": selector}}}
    )


def world(*undecodable_objects: Undecodable) -> World:
    """Nodes alder and birch with a pool each, and a pool of the network."""
    made = World(
        [
            resource_slice("a", "b", name="s1"),
            resource_slice("c", name="s2", pool="q", node="birch"),
            resource_slice("d", name="s3", pool="net", driver="net", node=None, allNodes=True),
        ]
    )
    for what in undecodable_objects:
        enter(made, what)
    return made


def enter(made: World, what: Undecodable) -> None:
    effect = effect_of(what)
    assert effect is not None
    made.ledger.hold_for(effect.key, effect.holder, effect.held)
    made.inventory.withhold(effect.key, effect.withheld)


def leave(made: World, what: Undecodable) -> None:
    effect = effect_of(what)
    assert effect is not None
    made.ledger.release(effect.key)
    made.inventory.release(effect.key)


def free(made: World, on: str) -> set[str]:
    """The devices that can be had on a node, one at a time."""
    found: set[str] = set()
    for expression in ("drv", "net"):
        asked = claim(exactly("r", 1, f'device.driver == "{expression}"'))
        prepared = made.allocator().prepare([asked])
        supply = prepared._supplies.of(node(on))
        for place, state in enumerate(supply.states(made.ledger.snapshot(), shares=True)):
            pool = supply.usable[place]
            found |= {one.name for at, one in enumerate(pool.devices) if not state.taken >> at & 1}
    return found


def test_devices_that_can_be_read_are_taken_and_no_others() -> None:
    made = world(odd_claim("a"))
    assert (free(made, "alder"), free(made, "birch")) == ({"b", "d"}, {"c", "d"})
    outcome = made.allocate(claim(exactly("r", 2, 'device.driver == "drv"')))
    assert isinstance(outcome, Refusal)
    assert outcome.reasons[0].holders == {"ns/odd (cannot be decoded)": 1}


def test_a_shared_device_is_taken_whole() -> None:
    made = World([resource_slice(device("a", shareable=True, capacity={"memory": 10}))])
    enter(made, odd_claim({"driver": "drv", "pool": "p", "device": "a", "shareID": "s", "consumedCapacity": 7}))
    assert made.devices(claim(exactly())) is None


def test_admin_access_takes_nothing() -> None:
    assert "a" in free(world(odd_claim({"driver": "drv", "pool": "p", "device": "a", "adminAccess": True})), "alder")
    odd = odd_claim({"driver": "drv", "pool": "p", "device": "a", "adminAccess": "yes"})
    assert "a" not in free(world(odd), "alder")


@pytest.mark.parametrize(
    ("what", "alder", "birch"),
    [
        (odd_claim({"driver": "drv", "pool": "p", "device": 5}), {"d"}, {"c", "d"}),
        (odd_claim({"driver": "drv", "device": "a"}), {"d"}, {"d"}),
        (odd_claim({"driver": "net"}), {"a", "b"}, {"c"}),
        (odd_claim({"driver": "drv"}, selector=ON_ALDER), {"d"}, {"c", "d"}),
        (odd_claim(None, selector=ON_ALDER), set(), {"c"}),
        (odd_claim(None, selector=[3]), set(), set()),
        (odd_claim(None), set(), set()),
        (undecodable("ResourceClaim", {"status": {"allocation": {"devices": 3}}}), set(), set()),
        (undecodable("ResourceClaim", {"status": {"allocation": {"devices": {"results": 3}}}}), set(), set()),
        (undecodable("ResourceClaim", {"status": "odd"}), set(), set()),
    ],
)
def test_where_devices_cannot_be_read_every_pool_that_the_claim_may_hold_devices_of_is_withheld(
    what: Undecodable, alder: set[str], birch: set[str]
) -> None:
    made = world(what)
    assert (free(made, "alder"), free(made, "birch")) == (alder, birch)
    leave(made, what)
    assert (free(made, "alder"), free(made, "birch")) == ({"a", "b", "d"}, {"c", "d"})


@pytest.mark.parametrize("status", [None, {}, {"allocation": None}, {"allocation": {"devices": {}}}])
def test_a_claim_without_an_allocation_holds_nothing(status: Any) -> None:
    what = undecodable("ResourceClaim", {"status": status, "spec": 3})
    assert free(world(what), "alder") == {"a", "b", "d"}


def test_an_object_of_which_nothing_can_be_read_withholds_everything() -> None:
    what = undecodable("ResourceClaim", {})
    what.__dict__["values"] = None
    assert free(world(what), "alder") == set()


def test_the_refusal_names_the_claim_and_what_is_wrong_with_it() -> None:
    made = world(odd_claim({"driver": "drv", "pool": "p"}))
    outcome = made.allocate(claim(exactly("r", 1, 'device.driver == "drv"')))
    assert isinstance(outcome, Refusal)
    why = (
        "withheld: ResourceClaim ns/odd cannot be decoded: Expected `array`, got `null` at spec.new, "
        "and may hold devices of it"
    )
    assert outcome.reasons[0].unusable_pools == {"drv/p": why}
    assert f"pool drv/p is {why}" in str(outcome)
    with pytest.raises(
        (NodeError, FatalError), match=r"resource pool drv/p is currently withheld: ResourceClaim ns/odd"
    ):
        made.allocate(claim(exactly("r", 0, allocationMode="All")))


@pytest.mark.parametrize(
    ("spec", "alder", "birch"),
    [
        ({"driver": "drv", "pool": {"name": "p", "generation": "new"}}, {"d"}, {"c", "d"}),
        ({"driver": "drv", "pool": 7, "nodeName": "alder"}, {"d"}, {"c", "d"}),
        ({"driver": "drv"}, {"d"}, {"d"}),
        ({"nodeName": "birch"}, {"a", "b"}, set()),
        ({}, set(), set()),
    ],
)
def test_the_pool_of_a_slice_that_cannot_be_decoded_is_incomplete(
    spec: dict[str, Any], alder: set[str], birch: set[str]
) -> None:
    """Also where the slices that can be decoded are as many as the pool states: the other one may be newer."""
    made = world(undecodable("ResourceSlice", {"spec": spec}))
    assert (free(made, "alder"), free(made, "birch")) == (alder, birch)


def test_a_pool_that_comes_later_is_withheld_too() -> None:
    made = World()
    enter(made, undecodable("ResourceSlice", {"spec": {"driver": "drv", "pool": {"name": "p"}}}))
    made.inventory.add_slice(resource_slice("a"))
    assert free(made, "alder") == set()
    made.inventory.remove_slice("s")
    assert made.inventory.snapshot().withheld == {}


def test_a_taint_rule_that_cannot_be_decoded_withholds_what_it_may_taint() -> None:
    spec = {"deviceSelector": {"driver": "drv", "pool": "p", "device": "a"}, "taint": 3}
    assert free(world(undecodable("DeviceTaintRule", {"spec": spec})), "alder") == {"d"}
    assert free(world(undecodable("DeviceTaintRule", {"spec": 3})), "alder") == set()
    assert free(world(undecodable("DeviceTaintRule", {"spec": {"taint": 3}})), "alder") == {"a", "b", "d"}


def test_answers_that_were_known_before_are_not_given_any_more() -> None:
    made = world()
    asked = claim(exactly("r", 1, 'device.driver == "drv"'))
    nodes = (node("alder"), node("birch"))

    def fitting() -> list[str]:
        return [one.node for one in made.allocator().prepare([asked]).on_each(nodes) if isinstance(one, Allocation)]

    assert fitting() == ["alder", "birch"]
    what = odd_claim({"driver": "drv", "pool": "p"})
    enter(made, what)
    assert fitting() == ["birch"]
    enter(made, odd_claim("a"))
    assert fitting() == ["alder", "birch"], "what it withheld is replaced by what it holds"
    leave(made, what)
    made.ledger.add(held("a", "b"))
    assert fitting() == ["birch"]


def test_other_kinds_have_nothing_to_do_with_devices() -> None:
    assert effect_of(undecodable("Pod", {})) is None
