"""Classes of nodes that share an answer, fitting_now as the cluster changes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import Allocation, Budget, Features, NodeError, Refusal
from cathedra.allocation.answers import NodeClass
from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.equivalence import EQUIVALENCES, NodeEquivalence, search_key
from cathedra.allocation.supply.pools import NodeSupplyCache
from cathedra.api.core import core_v1
from cathedra.api.resource import ResourceClaim, ResourceSlice
from tests.unit.allocation.building import World, claim, device, exactly, held, node, problem_of, resource_slice

NODES = [node(f"n{number}") for number in range(4)]


def local(number: int, size: int = 2, *, serial: str = "", generation: int = 1) -> ResourceSlice:
    attributes = {"serial": serial} if serial else {}
    devices = [device(f"d{at}", attributes={"numa": at, **attributes}) for at in range(size)]
    return resource_slice(*devices, name=f"s{number}", node=f"n{number}", pool=f"n{number}", generation=generation)


def world(**more: Any) -> World:
    return World([local(number) for number in range(4)], **more)


def groups(equivalence: NodeEquivalence, made: World, nodes: Sequence[core_v1.Node] = NODES) -> list[list[int]]:
    """The rows that stand alike, in the order of their first ones."""
    found: dict[NodeClass, list[int]] = {}
    for row, node_class in enumerate(classes(equivalence, made, nodes)):
        found.setdefault(node_class, []).append(row)
    return sorted(found.values())


def classes(equivalence: NodeEquivalence, made: World, nodes: Sequence[core_v1.Node] = NODES) -> list[NodeClass]:
    equivalence.follow(tuple(nodes), made.inventory.snapshot(), made.ledger.snapshot())
    return equivalence.classes(range(len(nodes)))


def fresh() -> NodeEquivalence:
    return NodeEquivalence(Features(), None)


def test_nodes_with_equal_pools_stand_alike() -> None:
    assert groups(fresh(), world()) == [[0, 1, 2, 3]]


def test_what_is_held_tells_nodes_apart_and_equal_holdings_do_not() -> None:
    made, equivalence = world(), fresh()
    assert groups(equivalence, made) == [[0, 1, 2, 3]]
    made.ledger.add(held("d0", name="x", pool="n1"))
    assert groups(equivalence, made) == [[0, 2, 3], [1]]
    made.ledger.add(held("d0", name="y", pool="n3"))
    assert groups(equivalence, made) == [[0, 2], [1, 3]]
    made.ledger.remove(held(name="x"))
    made.ledger.remove(held(name="y"))
    assert groups(equivalence, made) == [[0, 1, 2, 3]]


def test_another_device_of_the_pool_is_another_class() -> None:
    made = world()
    made.ledger.add(held("d0", name="x", pool="n1"))
    made.ledger.add(held("d1", name="y", pool="n2"))
    assert groups(fresh(), made) == [[0, 3], [1], [2]]


def test_a_changed_slice_moves_its_node_alone() -> None:
    made, equivalence = world(), fresh()
    groups(equivalence, made)
    made.inventory.add_slice(local(2, size=3, generation=2))
    assert groups(equivalence, made) == [[0, 1, 3], [2]]
    made.inventory.remove_slice("s0")
    assert groups(equivalence, made) == [[0], [1, 3], [2]]


def test_nodes_that_see_a_shared_pool_at_another_place_do_not_move_alike() -> None:
    made, equivalence = world(), fresh()
    shared = [device(f"d{at}", attributes={"numa": at}) for at in range(2)]
    made.inventory.add_slice(resource_slice(*shared, name="net", node=None, pool="n1x", allNodes=True))
    assert groups(equivalence, made) == [[0, 1, 2, 3]]
    made.ledger.add(held("d0", pool="n1x"))
    assert groups(equivalence, made) == groups(fresh(), made) == [[0, 1], [2, 3]]


def test_attributes_that_no_claim_asks_about_tell_nothing_apart() -> None:
    """More than 64 different values are a serial number; it matters only to claims that select by it."""
    nodes = [node(f"n{number}") for number in range(70)]
    made = World([local(number, serial=f"x{number}") for number in range(70)])
    assert len(groups(fresh(), made, nodes)) == 70
    by_numa = claim(exactly("r", 1, 'device.attributes["drv"].numa == 0'))
    assert made.allocator().prepare([by_numa]).on_each(nodes).kinds == 1
    by_serial = claim(exactly("r", 1, 'device.attributes["drv"].serial == "x1"'))
    assert made.allocator().prepare([by_serial]).on_each(nodes).kinds == 70


def test_a_list_in_another_order_has_its_own_rows() -> None:
    made, equivalence = world(), fresh()
    made.ledger.add(held("d0", pool="n0"))
    assert groups(equivalence, made) == [[0], [1, 2, 3]]
    assert groups(equivalence, made, NODES[::-1]) == [[0, 1, 2], [3]]
    assert groups(equivalence, made, NODES[:1]) == [[0]]
    assert groups(equivalence, made, []) == []


def test_nothing_is_looked_at_again_if_nothing_has_changed() -> None:
    made, equivalence = world(), fresh()
    first = classes(equivalence, made)
    again = classes(equivalence, made)
    assert all(one is other for one, other in zip(first, again, strict=True)), "the very classes of before"


def test_a_class_is_the_same_object_as_long_as_nodes_stand_so() -> None:
    """Answers are kept by it."""
    made, equivalence = world(), fresh()
    supplies = NodeSupplyCache(made.inventory.snapshot(), made.features)
    ledger = made.ledger.snapshot()
    first, second = (equivalence.class_of(one, supplies.of(one), ledger) for one in NODES[:2])
    assert first is second


def test_answers_are_kept_by_what_is_asked_and_an_odd_question_is_not_kept() -> None:
    equivalence = fresh()
    kept = equivalence.answers("two devices")
    assert equivalence.answers("two devices") is kept
    assert equivalence.answers("one device") is not kept
    assert equivalence.answers(None) is not equivalence.answers(None)


def test_only_so_many_questions_are_remembered_and_the_oldest_goes_first() -> None:
    equivalence = fresh()
    kept = [equivalence.answers(number) for number in range(64)]
    assert equivalence.answers(0) is kept[0]
    equivalence.answers("one more")
    assert equivalence.answers(0) is kept[0], "it was used last"
    assert equivalence.answers(1) is not kept[1]


def test_equivalences_live_with_their_inventory_by_features_and_projection() -> None:
    made = world()
    inventory = made.inventory.snapshot()
    found = NodeEquivalence.of(inventory, Features(), None)
    assert NodeEquivalence.of(inventory, Features(), None) is found
    assert NodeEquivalence.of(inventory, Features(consumable_capacity=False), None) is not found
    assert len(inventory.caches.of(EQUIVALENCES)) == 2
    made.inventory.add_slice(local(9))
    assert NodeEquivalence.of(made.inventory.snapshot(), Features(), None) is found


def test_a_pool_of_the_whole_cluster_concerns_every_node() -> None:
    made, equivalence = world(), fresh()
    groups(equivalence, made)
    made.inventory.add_slice(resource_slice("net", name="net", pool="net", node=None, allNodes=True))
    assert groups(equivalence, made) == [[0, 1, 2, 3]]
    made.ledger.add(held("d0", pool="n1", name="x"))
    made.ledger.add(held("net", pool="net", name="y"))
    assert groups(equivalence, made) == [[0, 2, 3], [1]]
    (row,) = [rows for rows in groups(equivalence, made) if len(rows) == 1]
    assert row == [1]


KIND = 'device.attributes["drv"].kind == "{}"'


def slice_on(name: str, gpus: list[Any], nics: list[Any], **more: Any) -> ResourceSlice:
    """A node's GPUs and NICs on these PCIe roots."""
    made = [
        device(f"{kind}{number}", attributes={"kind": kind, "root": root}, **more)
        for kind, roots in (("gpu", gpus), ("nic", nics))
        for number, root in enumerate(roots)
    ]
    return resource_slice(*made, name=name, node=name, pool=name)


def pairs(count: int) -> ResourceClaim:
    """A claim for pairs on common roots."""
    asked = [exactly(f"{kind}{number}", 1, KIND.format(kind)) for kind in ("gpu", "nic") for number in range(count)]
    tied = [{"requests": [f"gpu{number}", f"nic{number}"], "matchAttribute": "drv/root"} for number in range(count)]
    return claim(*asked, constraints=tied)


def looks(nodes: int) -> int:
    """How often these nodes read the clock: once in a few states of a search, and for each kind of device."""
    ticks = itertools.count()
    slices = []
    for number in range(nodes):
        roots = [f"pci{number}-{place}" for place in range(16)]
        slices.append(slice_on(f"n{number}", roots, [*roots[1:], "elsewhere"]))
    asked = [exactly(f"{side}{number}") for side in ("a", "b") for number in range(16)]
    tied = [{"requests": [f"a{number}", f"b{number}"], "matchAttribute": "drv/root"} for number in range(16)]
    world = World(slices, budget=Budget(seconds=10**9, monotonic=lambda: float(next(ticks))))
    every = [node(f"n{number}") for number in range(nodes)]
    assert world.allocator().prepare([claim(*asked, constraints=tied)]).on_each(every).fitting() == []
    return next(ticks)


def test_nodes_with_names_of_their_own_for_values_are_searched_once() -> None:
    first = looks(1)
    each_other = (looks(21) - first) / 20
    assert each_other <= first - 8


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_answers_are_those_of_a_search_on_each_node_alone(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 4))
    nics = data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=5))
    gpus = data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=5))
    slices = []
    for number in range(3):
        names = data.draw(st.permutations([f"{number}-{root}" for root in range(5)]))
        moved = data.draw(st.sampled_from([None, 0, 1]))
        roots = [data.draw(st.integers(0, 4)) if place == moved else root for place, root in enumerate(nics)]
        slices.append(slice_on(f"n{number}", [names[root] for root in gpus], [names[root] for root in roots]))
    nodes = [node(f"n{number}") for number in range(3)]
    asked = pairs(count)
    together = World(slices).allocator().prepare([asked]).on_each(nodes)
    for one, found in zip(nodes, together, strict=True):
        alone = World(slices).allocator().allocate(one, [asked])
        assert devices_of(found) == devices_of(alone)


def devices_of(answer: Allocation | Refusal | NodeError) -> list[tuple[str, str]] | None:
    """Request and device, or None."""
    if not isinstance(answer, Allocation):
        return None
    return [(one.request, one.device) for result in answer.results for one in result.devices.results]


def key(gpus: list[Any], nics: list[Any], **more: Any) -> object:
    """The key of a search for two pairs."""
    world = World([slice_on("alder", gpus, nics, **more)])
    prepared, problem = problem_of(world, [pairs(2)])
    tables = OptionTables(prepared.plans, world.features, problem.supply.interner)
    return search_key(problem, bases(tables, problem))


def test_the_form_forgets_the_names_of_values_and_keeps_which_are_equal_and_of_one_type() -> None:
    assert key(["a", "b"], ["b", "a"]) == key(["x", "y"], ["y", "x"])
    assert key(["a", "b"], ["b", "a"]) != key(["a", "b"], ["a", "b"])
    assert key(["a", "b"], ["b", "a"]) != key([1, 2], [2, 1])


def test_a_search_in_which_shares_matter_has_no_form() -> None:
    assert key(["a", "b"], ["b", "a"], shareable=True) is None
