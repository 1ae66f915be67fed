"""The allocator as the scheduler calls it."""

from __future__ import annotations

import random
import traceback
import uuid

import pytest

from cathedra.allocation import Allocation, Allocator, Budget, FatalError, Features, NodeError, Refusal
from cathedra.allocation.features import behaviour_of
from cathedra.api.resource import DeviceClass
from cathedra.api.struct import from_dict
from tests.unit.allocation.building import (
    World,
    claim,
    device,
    exactly,
    first_available,
    held,
    node,
    resource_slice,
)


def local(number: int, *devices: str) -> object:
    return resource_slice(*devices, name=f"s{number}", node=f"n{number}", pool=f"n{number}")


NODES = [node("n0"), node("n1")]


def world(*holding: str) -> World:
    """Two nodes, each with devices «a» and «b»."""
    return World([local(0, "a", "b"), local(1, "a", "b")], [held(*holding, pool="n0")] if holding else ())


def test_claims_are_allocated_together_or_not_at_all() -> None:
    outcome = world().allocate(claim(exactly(), name="x"), claim(exactly(), name="y"), on="n0")
    assert isinstance(outcome, Allocation)
    assert [result.devices.results[0].device for result in outcome.results] == ["a", "b"]
    refusal = world("b").allocate(claim(exactly(), name="x"), claim(exactly(), name="y"), on="n0")
    assert isinstance(refusal, Refusal)
    assert {reason.claim for reason in refusal.reasons} == {"claim ns/x", "claim ns/y"}


def test_asking_changes_nothing() -> None:
    allocator = world().allocator()
    first, second = (allocator.allocate(NODES[0], [claim(exactly())]) for _ in range(2))
    assert isinstance(first, Allocation)
    assert isinstance(second, Allocation)
    assert first.results == second.results


def test_the_traceback_of_a_faulty_claim_does_not_grow_with_the_nodes() -> None:
    """One error serves all nodes. In WebAssembly, freeing a traceback of thousands of entries overflows the stack."""
    prepared = world().allocator().prepare([claim(exactly("r", 1, allocationMode="Several"))])

    def entries() -> int:
        with pytest.raises(FatalError) as caught:
            prepared.on(NODES[0])
        return len(traceback.extract_tb(caught.value.__traceback__))

    assert entries() == entries()


def test_prepared_claims_are_put_to_nodes_in_any_order() -> None:
    prepared = world("a", "b").allocator().prepare([claim(exactly())])
    outcomes = [prepared.on(one) for one in (NODES[1], NODES[0], NODES[1])]
    assert [type(outcome) for outcome in outcomes] == [Allocation, Refusal, Allocation]
    assert [outcome.node for outcome in outcomes] == ["n1", "n0", "n1"]


def test_each_and_all_say_the_same() -> None:
    prepared = world("a", "b").allocator().prepare([claim(exactly("r", 2))])
    answers = prepared.on_each(NODES)
    assert answers.fitting() == [1]
    assert [type(answer) for answer in answers] == [type(prepared.on(one)) for one in NODES]


def test_classes_are_found_by_a_mapping_or_by_a_function() -> None:
    made = world()
    known = from_dict(DeviceClass, {"metadata": {"name": "c"}})
    for classes in ({"c": known}, {"c": known}.get):
        allocator = Allocator(made.features, classes, made.inventory.snapshot(), made.ledger.snapshot())
        assert isinstance(allocator.allocate(NODES[0], [claim(exactly())]), Allocation)


def test_what_is_wrong_with_claims_is_raised_where_they_meet_a_node() -> None:
    made = world()
    allocator = Allocator(made.features, {}, made.inventory.snapshot(), made.ledger.snapshot())
    prepared = allocator.prepare([claim(exactly())])
    with pytest.raises(FatalError, match="could not retrieve device class c"):
        prepared.on(NODES[0])
    with pytest.raises(FatalError, match="could not retrieve device class c"):
        prepared.on_each(NODES)


def test_an_invalid_pool_rules_a_node_out_only_if_the_others_do_not_suffice() -> None:
    twice = [resource_slice("x", name=f"t{n}", node="n0", pool="bad", count=2) for n in range(2)]
    made = World([local(0, "a"), *twice])
    assert isinstance(made.allocate(claim(exactly()), on="n0"), Allocation)
    with pytest.raises(NodeError, match="invalid resource pools were encountered"):
        made.allocate(claim(exactly("r", 2)), on="n0")


def test_a_fatal_error_is_that_of_the_first_node_in_the_list() -> None:
    """Nodes of one class share an answer, but its text names a device, and must not depend on earlier questions."""
    slices = [local(number, "a") for number in range(3)]
    asked = [claim(exactly("r", 1, 'device.attributes["drv"].n == 1'))]
    for order in ([2, 0, 1], [1, 2, 0]):
        prepared = World(slices).allocator().prepare(asked)
        with pytest.raises(FatalError, match=f"drv/n{order[0]}/a"):
            prepared.on_each([node(f"n{number}") for number in order])


def hard() -> World:
    """More devices of one kind than a budget of a few states can try out."""
    made = [device(f"d{n}", attributes={"x": n % 3, "y": n % 5}) for n in range(12)]
    return World([resource_slice(*made)], budget=Budget(states=1))


HARD = claim(
    exactly("r", 5),
    exactly("s", 5),
    constraints=[
        {"distinctAttribute": "drv/y", "requests": ["r"]},
        {"matchAttribute": "drv/x", "requests": ["s"]},
    ],
)


def test_a_search_beyond_its_budget_is_stopped_and_says_so() -> None:
    outcome = hard().allocate(HARD)
    assert isinstance(outcome, Refusal)
    assert outcome.stopped
    assert outcome.states == 1


def test_a_search_that_was_stopped_is_made_again_by_the_next_who_asks() -> None:
    """The next budget may be larger, or less may be in use: an answer that is no answer is not kept."""
    made = hard()
    assert made.allocator().prepare([HARD]).on_each([node()])[0].stopped  # type: ignore[union-attr]
    made.budget = None
    outcome = made.allocator().prepare([HARD]).on_each([node()])[0]
    assert isinstance(outcome, Refusal)
    assert not outcome.stopped


def test_share_ids_are_random_uuids_of_version_4() -> None:
    made = world()
    allocator = Allocator(
        made.features, made.classes, made.inventory.snapshot(), made.ledger.snapshot(), random=random.Random(1)
    )
    ids = {allocator.new_share_id() for _ in range(200)}
    assert len(ids) == 200
    parsed = [uuid.UUID(one) for one in ids]
    assert {(one.version, one.variant) for one in parsed} == {(4, uuid.RFC_4122)}
    assert {str(one) for one in parsed} == ids


@pytest.mark.parametrize("release", ["1.34", "1.35", "1.36", "1.37"])
def test_every_release_finds_the_same_device_where_its_faults_do_not_show(release: str) -> None:
    made = World([resource_slice("a", "b")], [held("a")], features=Features(behaviour=behaviour_of(release)))
    assert made.devices(claim(exactly())) == ["r→b"]


def test_a_device_with_live_shares_is_not_given_away_as_a_whole() -> None:
    """Its slice has come to disallow sharing since (kubernetes/kubernetes#140798)."""
    made = World([resource_slice("a")], [held(shares={"a": {}})])
    assert made.devices(claim(exactly())) is None


def test_an_alternative_that_asks_for_too_many_devices_falls_through_to_the_next() -> None:
    """Counts that add up past 64 bits are no other (kubernetes/kubernetes#141307)."""
    made = World([resource_slice("a", "b")])
    many = first_available("r", first=exactly(count=2**63 - 1), second=exactly(count=1))
    assert made.devices(claim(exactly("q"), many)) == ["q→a", "r/second→b"]


def test_requests_whose_counts_add_up_past_64_bits_are_refused_as_too_many() -> None:
    made = World([resource_slice("a", "b")])
    with pytest.raises(FatalError, match="32"):
        made.devices(claim(exactly("q", count=2**63 - 1), exactly("r", count=2**63 - 1)))
