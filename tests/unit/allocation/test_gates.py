"""Every feature gate, switched on and off (docs/spec/allocation.md §2 and the worked cases of section 16)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation import (
    NEWEST,
    RELEASE_1_36,
    Allocation,
    Allocator,
    FatalError,
    Features,
    Inventory,
    Ledger,
    NodeError,
    behaviour_of,
)
from cathedra.api.core import core_v1
from cathedra.api.struct import from_dict
from tests.unit.allocation.building import World, claim, device, exactly, first_available, held, node, resource_slice

CORES = {"counters": {"g": {"cores": 8}}, "count": 2, "name": "sets"}


def features(**given: bool) -> Features:
    """The defaults of 1.37 with some gates set."""
    return Features(**given)


def grouped(name: str, cores: int, *groups: str) -> dict[str, Any]:
    """A device that takes cores and belongs to compatibility groups."""
    made = device(name, consumes={"g": {"cores": cores}})
    if groups:
        made["consumesCounters"][0]["compatibilityGroups"] = list(groups)
    return made


@pytest.mark.parametrize(
    ("feature", "request_", "text"),
    [
        ("admin_access", exactly(adminAccess=False), "admin access is requested, but the feature is disabled"),
        (
            "prioritized_list",
            first_available("r", a=exactly()),
            "has subrequests, but the DRAPrioritizedList feature is disabled",
        ),
    ],
    ids=["admin access, even if it is not wanted", "alternatives"],
)
def test_a_request_without_its_gate_is_fatal(feature: str, request_: dict[str, Any], text: str) -> None:
    world = World([resource_slice("x")], features=features(**{feature: False}))
    with pytest.raises(FatalError, match=text):
        world.allocate(claim(request_))


def test_partitions_without_their_gate_are_passed_over() -> None:
    slices = [
        resource_slice(device("full", consumes={"g": {"cores": 8}}), "plain", count=2),
        resource_slice(**CORES),
    ]
    assert World(slices).devices(claim(exactly("r", 2))) == ["r→full", "r→plain"]
    slices = [slices[0], resource_slice("other", name="s2", count=2)]
    assert World(slices, features=features(partitionable_devices=False)).devices(claim(exactly("r", 2))) == [
        "r→plain",
        "r→other",
    ]


def test_taints_without_their_gate_have_no_effect() -> None:
    slices = [resource_slice(device("x", taints={"k": "NoSchedule"}))]
    assert World(slices).devices(claim(exactly())) is None
    assert World(slices, features=features(device_taints=False)).devices(claim(exactly())) == ["r→x"]


def test_binding_conditions_need_their_gate_and_come_last() -> None:
    slices = [
        resource_slice(device("x", bindingConditions=["Ready"]), name="s1", pool="aa"),
        resource_slice("y", name="s2", pool="zz"),
    ]
    assert World(slices).devices(claim(exactly("r", 2))) == ["r→y", "r→x"]
    assert World(slices, features=features(device_binding_and_status=False)).devices(claim(exactly("r", 2))) is None


def test_shares_need_their_gate() -> None:
    slices = [resource_slice(device("x", shareable=True))]
    asked = claim(exactly("a"), exactly("b"))
    assert World(slices).devices(asked) == ["a→x", "b→x"]
    assert World(slices, features=features(consumable_capacity=False)).devices(asked) is None
    with pytest.raises(FatalError, match="has capacity requests, but the DRAConsumableCapacity feature is disabled"):
        World(slices, features=features(consumable_capacity=False)).allocate(claim(exactly(capacity={"mem": 1})))


def test_without_their_gate_a_share_holds_the_whole_device() -> None:
    slices, allocated = [resource_slice(device("x", shareable=True))], [held(shares={"x": {}})]
    assert World(slices, allocated).devices(claim(exactly())) == ["r→x"]
    assert World(slices, allocated, features=features(consumable_capacity=False)).devices(claim(exactly())) is None


@pytest.mark.parametrize(("fractional", "amount"), [(True, "750m"), (False, "1")])
def test_fractions_are_rounded_in_thousandths_with_the_gate(fractional: bool, amount: str) -> None:
    policy = {"default": "500m", "validRange": {"min": "500m", "step": "250m"}}
    made = device("x", shareable=True, capacity={"mem": {"value": "4", "requestPolicy": policy}})
    world = World([resource_slice(made)], features=features(fractional_capacity_range=fractional))
    outcome = world.allocate(claim(exactly(capacity={"mem": "600m"})))
    assert isinstance(outcome, Allocation)
    (result,) = outcome.results[0].devices.results
    assert {name: str(value) for name, value in result.consumed_capacity.items()} == {"mem": amount}


def test_lists_match_by_a_common_element_with_the_gate_and_never_without() -> None:
    slices = [resource_slice(*(device(f"d{n}", attributes={"n": [n, n + 1]}) for n in range(2)))]
    asked = claim(exactly("r", 2), constraints=[{"matchAttribute": "drv/n"}])
    assert World(slices, features=features(list_type_attributes=True)).devices(asked) == ["r→d0", "r→d1"]
    assert World(slices).devices(asked) is None


def test_devices_without_node_operations_need_the_gate_and_the_nodes_word() -> None:
    slices = [resource_slice("x", skipNodeOperations=["Prepare"])]
    declared = from_dict(
        core_v1.Node,
        {"metadata": {"name": "alder"}, "status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}},
    )
    for on, of, fits in ((True, declared, True), (True, node(), False), (False, declared, False)):
        allocator = Allocator(
            features(optional_node_operations=on), World().classes, Inventory(slices).snapshot(), Ledger().snapshot()
        )
        outcome = allocator.allocate(of, [claim(exactly())])
        assert isinstance(outcome, Allocation) == fits
        if isinstance(outcome, Allocation):
            assert outcome.results[0].devices.results[0].skip_node_operations == ("Prepare",)


def test_derived_attributes_need_their_gate() -> None:
    made = [device(f"d{n}", attributes={"bus": bus}) for n, bus in enumerate((17, 29, 11))]
    asked = claim(
        exactly(
            "r",
            2,
            derivedAttributes=[{"name": "acme.test/decade", "expression": 'device.attributes["drv"].bus / 10'}],
        ),
        constraints=[{"matchAttribute": "acme.test/decade"}],
    )
    world = World([resource_slice(*made)], features=features(derived_attributes=True))
    assert world.devices(asked) == ["r→d0", "r→d2"]
    with pytest.raises(FatalError, match="cannot handle request with derived attributes, the feature is disabled"):
        World([resource_slice(*made)]).allocate(asked)


def test_devices_on_a_counter_set_need_a_group_in_common() -> None:
    slices = [
        resource_slice(
            grouped("m", 2, "mig", "x"), grouped("n", 1, "mps", "x"), grouped("q", 1, "mps"), count=2, name="s1"
        ),
        resource_slice(**CORES),
    ]
    world = World(slices, features=features(compatibility_groups=True))
    assert world.devices(claim(exactly("r", 2))) == ["r→m", "r→n"]
    assert world.devices(claim(exactly("r", 3))) is None
    assert World(slices).devices(claim(exactly())) is None, "without the gate such slices do not exist"


def test_devices_with_and_without_groups_do_not_mix() -> None:
    slices = [
        resource_slice(grouped("m", 8, "mig"), grouped("n", 1, "mps"), grouped("q", 0), count=2, name="s1"),
        resource_slice(**CORES),
    ]
    assert World(slices, features=features(compatibility_groups=True)).devices(claim(exactly("r", 2))) is None


def test_features_follow_the_gates() -> None:
    gates = {"DRAConsumableCapacity": True, "DRADeviceBindingConditions": True, "DRAResourceClaimDeviceStatus": False}
    made = Features.from_gates(gates)
    assert made.consumable_capacity
    assert not made.device_binding_and_status, "needs both of its gates"
    assert not made.admin_access
    assert Features.from_names({"AdminAccess": True}).stable
    with pytest.raises(KeyError):
        Features.from_names({"Nonsense": True})


def test_a_release_has_its_own_behaviour() -> None:
    assert behaviour_of("1.38") is NEWEST
    mixed = behaviour_of("1.37")
    assert mixed.releases_everything
    assert (mixed.bad_pool_under_all_is_fatal, mixed.capacity_names_are_qualified) == (True, False)
    assert len({mixed.name, NEWEST.name, RELEASE_1_36.name}) == 3, "names tell behaviours apart in caches"
    assert behaviour_of("1.36") is RELEASE_1_36
    assert behaviour_of("1.35") is RELEASE_1_36, "the nearest that is known"


@pytest.mark.parametrize(("release", "error"), [("1.37", FatalError), ("1.38", NodeError)])
def test_all_of_an_incomplete_pool_fails_on_its_nodes_alone_from_138_on(
    release: str, error: type[FatalError | NodeError]
) -> None:
    """kubernetes/kubernetes#141898."""
    made = World([resource_slice("a", count=2)], features=Features(behaviour=behaviour_of(release)))
    with pytest.raises(error, match="resource pool drv/p is currently being updated"):
        made.allocate(claim(exactly(count=0, allocationMode="All")))


@pytest.mark.parametrize(("release", "found"), [("1.37", None), ("1.38", ["r→a"])])
@pytest.mark.parametrize(("published", "asked"), [("mem", "drv/mem"), ("drv/mem", "mem")])
def test_a_capacity_is_requested_with_or_without_its_driver_from_138_on(
    published: str, asked: str, release: str, found: list[str] | None
) -> None:
    """kubernetes/kubernetes#142202."""
    made = World(
        [resource_slice(device("a", capacity={published: "4"}))], features=Features(behaviour=behaviour_of(release))
    )
    assert made.devices(claim(exactly(capacity={asked: "2"}))) == found
