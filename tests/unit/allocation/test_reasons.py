"""Reasons of refusals, as data."""

from __future__ import annotations

import pytest

from cathedra.allocation import NodeError, Refusal
from cathedra.allocation.refusal import RequestReason
from cathedra.api.resource import ResourceClaim
from tests.unit.allocation.building import World, claim, device, exactly, first_available, held, resource_slice


def refused(world: World, *claims: ResourceClaim) -> Refusal:
    """The refusal that must come."""
    outcome = world.allocate(*claims)
    assert isinstance(outcome, Refusal)
    return outcome


def only(refusal: Refusal) -> RequestReason:
    """The reason of the only request."""
    (reason,) = refusal.reasons
    return reason


def test_each_selector_says_how_many_devices_it_saw_passed_and_could_not_judge() -> None:
    made = [device("a", attributes={"n": 1}), device("b"), device("c", attributes={"n": 2})]
    numbered = 'has(device.attributes["drv"].n)'
    tall = 'device.attributes["drv"].n > 1'
    reason = only(refused(World([resource_slice(*made)]), claim(exactly("r", 2, numbered, tall))))
    assert (reason.in_reach, reason.class_passed, reason.selected) == (3, 3, 1)
    first, second = reason.selectors
    assert (first.origin, first.index, first.asked, first.passed) == ("claim ns/k", 0, 3, 2)
    assert (second.asked, second.passed, second.missing, second.errors) == (2, 1, 0, 0)
    assert reason.obstacle == "selectors"


def test_devices_without_what_a_selector_asks_for_are_counted_apart() -> None:
    """The search stops at the first of them, but the reason counts all of them."""
    world = World([resource_slice(device("a", attributes={"n": 1}), device("b"))], [held("b")])
    reason = only(refused(world, claim(exactly("r", 2, 'device.attributes["drv"].n == 1'))))
    assert (reason.selectors[0].passed, reason.selectors[0].missing) == (1, 1)


def test_the_holders_of_devices_are_named() -> None:
    world = World([resource_slice("a", "b", "c")], [held("a", "b", name="one"), held("c", name="two")])
    refusal = refused(world, claim(exactly()))
    assert dict(only(refusal).holders) == {"ns/one": 2, "ns/two": 1}
    assert only(refusal).obstacle == "allocated"
    assert refusal.fits_when_free
    assert str(refusal) == "alder: claim ns/k, request r: 1 wanted, 3 in reach, 0 free"


def test_taints_capacity_and_counters_have_counts_of_their_own() -> None:
    slices = [
        resource_slice(
            device("tainted", taints={"k": "NoSchedule"}, capacity={"mem": 9}),
            device("small", capacity={"mem": 1}),
            device("greedy", capacity={"mem": 9}, consumes={"g": {"m": 2}}),
            device("owner", consumes={"g": {"m": 3}}),
            count=2,
        ),
        resource_slice(name="sets", counters={"g": {"m": 4}}, count=2),
    ]
    world = World(slices, [held("owner")])
    refusal = refused(world, claim(exactly(capacity={"mem": 5})))
    reason = only(refusal)
    assert (reason.in_reach, reason.free, reason.tolerated, reason.with_capacity, reason.with_counters) == (
        4,
        3,
        2,
        1,
        0,
    )
    assert dict(reason.taints) == {"k:NoSchedule": 1}
    assert (reason.obstacle, dict(reason.counter_holders)) == ("counters", {"ns/holder": 1})
    assert refusal.fits_when_free


def test_the_constraint_that_kills_is_named_and_the_one_that_does_not_is_not() -> None:
    made = [device(f"d{n}", attributes={"numa": n % 2, "model": "a"}) for n in range(4)]
    constraints = [{"matchAttribute": "drv/numa"}, {"matchAttribute": "drv/model"}]
    refusal = refused(World([resource_slice(*made)]), claim(exactly("r", 3), constraints=constraints))
    numa, model = only(refusal).constraints
    assert (numa.together, numa.decisive, dict(numa.values)) == (2, True, {"0": 2, "1": 2})
    assert (model.together, model.decisive) == (4, False)
    assert only(refusal).obstacle == "constraint"
    assert "only 2 satisfy matchAttribute drv/numa together" in str(refusal)
    assert refusal.fits_when_free is False


def test_a_device_without_the_attribute_counts_as_missing() -> None:
    made = [device("a", attributes={"numa": 0}), device("b")]
    constraints = [{"distinctAttribute": "drv/numa"}]
    reason = only(refused(World([resource_slice(*made)]), claim(exactly("r", 2), constraints=constraints)))
    assert (reason.constraints[0].kind, reason.constraints[0].missing) == ("distinctAttribute", 1)
    assert reason.obstacle == "constraint attributes"


def test_requests_that_take_each_others_devices_say_so() -> None:
    world = World([resource_slice("a")])
    first, second = refused(world, claim(exactly("x"), exactly("y"))).reasons
    assert first.fits_alone
    assert second.fits_alone
    assert (first.obstacle, second.obstacle) == ("other requests", "other requests")


def test_every_alternative_has_a_reason() -> None:
    asked = claim(first_available("r", a=exactly("a", 3), b=exactly("b", 2)))
    first, second = refused(World([resource_slice("x")]), asked).reasons
    assert (first.request, first.wanted, second.request, second.wanted) == ("r/a", 3, "r/b", 2)


def test_a_node_that_is_out_because_of_an_invalid_pool_has_reasons_too() -> None:
    world = World([resource_slice("x", name="s1", count=2), resource_slice("x", name="s2", count=2)])
    with pytest.raises(NodeError, match="invalid resource pools were encountered") as raised:
        world.allocate(claim(exactly()))
    assert raised.value.refusal is not None
    assert dict(only(raised.value.refusal).unusable_pools) == {"drv/p": "invalid"}


def test_reasons_cost_nothing_before_they_are_asked_for() -> None:
    world = World([resource_slice("x")], [held("x")])
    prepared = world.allocator().prepare([claim(exactly())])
    assert prepared.plans[0].requests[0].options
    refusal = refused(world, claim(exactly()))
    assert repr(refusal) == "Refusal('alder', states=None)"
    assert refusal.reasons is refusal.reasons


def pairs(groups: int, nics: list[int]) -> tuple[World, ResourceClaim]:
    """A GPU on each root, NICs on these, and a claim for pairs on a common root."""
    made = [device(f"gpu{n}", attributes={"kind": "gpu", "root": n}) for n in range(groups)]
    made += [device(f"nic{n}", attributes={"kind": "nic", "root": root}) for n, root in enumerate(nics)]
    asked = [
        exactly(f"{kind}{n}", 1, f'device.attributes["drv"].kind == "{kind}"')
        for kind in ("gpu", "nic")
        for n in range(groups)
    ]
    constraints = [{"requests": [f"gpu{n}", f"nic{n}"], "matchAttribute": "drv/root"} for n in range(groups)]
    return World([resource_slice(*made)]), claim(*asked, constraints=constraints)


def test_constraints_that_need_more_values_than_there_are_say_how_many_and_which_devices_lack() -> None:
    world, asked = pairs(4, [9, 1, 2, 3])
    refusal = refused(world, asked)
    group = refusal.reasons[0].constraints[0].group
    assert group is not None
    assert (group.requests, group.values, group.served, group.alike) == (("gpu0", "nic0"), 3, 3, 4)
    assert dict(group.lacking) == {"0": ("nic0",), "9": ("gpu0",)}
    shortage = "4 constraints matchAttribute drv/root, one of them over gpu0 and nic0, need one value each"
    assert {one.short.shortage for one in refusal.reasons if one.short} == {f"{shortage}; there are devices for 3"}
    assert f"but {shortage}; there are devices for 3 (0: too few for nic0; 9: too few for gpu0)" in str(refusal)


def test_a_single_constraint_without_a_common_value_says_so() -> None:
    world, asked = pairs(1, [9])
    reason = refused(world, asked).reasons[0]
    assert reason.short is not None
    assert reason.short.shortage == "matchAttribute drv/root: no value has enough devices for gpu0 and nic0"


def test_values_are_not_counted_where_devices_may_be_shared() -> None:
    made = [device("gpu", attributes={"root": 0}), device("nic", attributes={"root": 1}, shareable=True)]
    kinds = [
        exactly("a", 1, 'device.attributes["drv"].root == 0'),
        exactly("b", 1, 'device.attributes["drv"].root == 1'),
    ]
    asked = claim(*kinds, constraints=[{"matchAttribute": "drv/root"}])
    assert refused(World([resource_slice(*made)]), asked).reasons[0].constraints[0].group is None
