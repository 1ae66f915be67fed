"""Nodes whose devices differ in the names of values alone share long searches."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import Allocation, Budget, NodeError, Refusal
from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.form import form_of
from cathedra.api.resource import ResourceClaim, ResourceSlice
from tests.unit.allocation.building import World, claim, device, exactly, node, problem_of, resource_slice

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
    """How often these nodes look at the clock: once in a few states of a search, and for each kind of device."""
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


def form(gpus: list[Any], nics: list[Any], **more: Any) -> object:
    """The form of a search for two pairs."""
    world = World([slice_on("alder", gpus, nics, **more)])
    prepared, problem = problem_of(world, [pairs(2)])
    tables = OptionTables(prepared.plans, world.features, problem.view.interner)
    return form_of(problem, bases(tables, problem))


def test_the_form_forgets_the_names_of_values_and_keeps_which_are_equal_and_of_one_type() -> None:
    assert form(["a", "b"], ["b", "a"]) == form(["x", "y"], ["y", "x"])
    assert form(["a", "b"], ["b", "a"]) != form(["a", "b"], ["a", "b"])
    assert form(["a", "b"], ["b", "a"]) != form([1, 2], [2, 1])


def test_a_search_in_which_shares_matter_has_no_form() -> None:
    assert form(["a", "b"], ["b", "a"], shareable=True) is None
