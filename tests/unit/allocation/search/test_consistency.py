"""Claims whose requests are tied in groups: the same answer as the walk, in few states."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.allocation import Budget, Features
from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.budget import Meter
from cathedra.allocation.search.fast import FastSearch
from cathedra.api.resource import ResourceClaim
from tests.unit.allocation.building import (
    World,
    claim,
    device,
    exactly,
    first_available,
    held,
    problem_of,
    resource_slice,
)
from tests.unit.allocation.search.test_fast import compare_searches, named

KIND = 'device.attributes["drv"].kind == "{}"'
FEW = 10
"""States per request. One descent takes two, and so does the way back; a bound over 64 open requests counts as eight.
The walk takes thousands."""
MODEL = 'device.attributes["drv"].?model.orValue("") == "{}"'


def part(kind: str, number: int, root: int | list[int] | None, **more: Any) -> dict[str, Any]:
    """A device of a kind on a PCIe root."""
    attributes = {"kind": kind, **more.pop("attributes", {})}
    if root is not None:
        attributes["root"] = root
    return device(f"{kind}{number}", attributes=attributes, **more)


def wants(kind: str, number: int, count: int = 1) -> dict[str, Any]:
    """A request for devices of a kind."""
    return exactly(f"{kind}{number}", count, KIND.format(kind))


def tied(
    *kinds: str, groups: int, first: int = 0, name: str = "k", counts: dict[str, int] | None = None
) -> ResourceClaim:
    """A claim for groups of devices, one request per kind, each group on one root; requests are ordered by kind."""
    numbers = range(first, first + groups)
    asked = [wants(kind, number, (counts or {}).get(kind, 1)) for kind in kinds for number in numbers]
    constraints = [
        {"requests": [f"{kind}{number}" for kind in kinds], "matchAttribute": "drv/root"} for number in numbers
    ]
    return claim(*asked, name=name, constraints=constraints)


def pairs_world(gpus: list[int], nics: list[int]) -> World:
    """A node with one GPU or NIC for each root given."""
    made = [part("gpu", number, root) for number, root in enumerate(gpus)]
    made += [part("nic", number, root) for number, root in enumerate(nics)]
    slices = [
        resource_slice(*made[at : at + 100], name=f"s{at}", count=-(-len(made) // 100))
        for at in range(0, len(made), 100)
    ]
    return World(slices)


class Searched(NamedTuple):
    """What a search found, and in how many states."""

    devices: list[tuple[str, str]] | None
    states: int


def searched(world: World, *claims: ResourceClaim) -> Searched:
    """Search; fail after a few thousand states instead of running for hours."""
    prepared, problem = problem_of(world, list(claims))
    tables = OptionTables(prepared.plans, world.features, problem.supply.interner)
    meter = Meter(Budget(states=5_000).begin())
    found = FastSearch(problem, bases(tables, problem), meter).run()
    return Searched(named(problem, found), meter.states)


# --- counted states


@pytest.mark.parametrize("groups", [8, 16])
@pytest.mark.parametrize("broken", [1, 2, 5])
def test_pairs_with_a_nic_on_a_foreign_root_are_refused_without_trying_their_orders(groups: int, broken: int) -> None:
    """The walk tries all orders of the GPUs; a matching of pairs with roots decides after one descent."""
    foreign = [100 + number for number in range(broken)]
    world = pairs_world(list(range(groups)), foreign + list(range(broken, groups)))
    found = searched(world, tied("gpu", "nic", groups=groups))
    assert found.devices is None
    assert found.states <= FEW * 2 * groups


@pytest.mark.parametrize("broken", [0, 1, 3])
def test_thirty_two_pairs_of_two_claims_are_searched_together(broken: int) -> None:
    """A claim has 32 devices at most; claims of one pod compete for devices."""
    foreign = [100 + number for number in range(broken)]
    world = pairs_world(list(range(32)), foreign + list(range(broken, 32)))
    found = searched(world, tied("gpu", "nic", groups=16), tied("gpu", "nic", groups=16, first=16, name="k2"))
    assert (found.devices is None) == bool(broken)
    assert found.states <= FEW * 64


@pytest.mark.parametrize("spare", [1, 4])
def test_a_first_solution_far_from_the_first_devices_is_found_at_once(spare: int) -> None:
    """The first GPUs have no NIC on their root, so that the first descent fails at the last pair."""
    world = pairs_world(list(range(16 + spare)), list(range(spare, 16 + spare)))
    found = searched(world, tied("gpu", "nic", groups=16))
    assert found.devices == [
        *((f"gpu{number}", f"gpu{number + spare}") for number in range(16)),
        *((f"nic{number}", f"nic{number}") for number in range(16)),
    ]
    assert found.states <= FEW * 32


def test_roots_that_serve_several_pairs_are_counted() -> None:
    """Four roots with four GPUs each, but only three NICs on one of them: 15 pairs fit, 16 do not."""
    roots = [number % 4 for number in range(16)]
    world = pairs_world(roots, roots[1:])
    assert searched(world, tied("gpu", "nic", groups=15)).devices is not None
    found = searched(world, tied("gpu", "nic", groups=16))
    assert found.devices is None
    assert found.states <= FEW * 32


def test_a_group_with_several_devices_of_a_kind_needs_a_root_with_as_many() -> None:
    """Ten roots with two GPUs each would serve ten groups of two GPUs and a NIC; one GPU is elsewhere."""
    gpus = [number // 2 for number in range(20)]
    gpus[0] = 50
    found = searched(pairs_world(gpus, list(range(10))), tied("gpu", "nic", groups=10, counts={"gpu": 2}))
    assert found.devices is None
    assert found.states <= FEW * 20


def test_three_kinds_of_devices_are_matched_together() -> None:
    made = [part(kind, number, number) for kind in ("gpu", "nic", "nvme") for number in range(10)]
    made[-1] = part("nvme", 9, 50)
    found = searched(World([resource_slice(*made)]), tied("gpu", "nic", "nvme", groups=10))
    assert found.devices is None
    assert found.states <= FEW * 30


def test_what_one_constraint_loses_narrows_the_others() -> None:
    """GPU and NIC on one root, the NIC and a disk on one switch: the only switch without a disk serves root 0."""
    made = [part("gpu", number, number) for number in range(8)]
    made += [part("nic", number, number, attributes={"switch": number}) for number in range(8)]
    made += [device(f"nvme{number}", attributes={"kind": "nvme", "switch": number or 9}) for number in range(8)]
    numbers = range(8)
    asked = [wants(kind, number) for kind in ("gpu", "nic", "nvme") for number in numbers]
    on_root = [{"requests": [f"gpu{n}", f"nic{n}"], "matchAttribute": "drv/root"} for n in numbers]
    on_switch = [{"requests": [f"nic{n}", f"nvme{n}"], "matchAttribute": "drv/switch"} for n in numbers]
    found = searched(World([resource_slice(*made)]), claim(*asked, constraints=[*on_root, *on_switch]))
    assert found.devices is None
    assert found.states <= FEW * 24


def test_partitions_count_as_many_as_their_counters_serve() -> None:
    """Each GPU has seven partitions but counters for two of them; five pairs need a third GPU beside NICs."""
    partitions = [
        part("gpu", 10 * gpu + number, gpu, consumes={f"g{gpu}": {"m": 1}}) for gpu in range(2) for number in range(7)
    ]
    nics = [part("nic", number, number % 2) for number in range(8)]
    counters = {f"g{gpu}": {"m": 2} for gpu in range(2)}
    world = World(
        [
            resource_slice(*partitions, *nics, name="s", count=2),
            resource_slice(name="c", count=2, counters=counters),
        ]
    )
    assert searched(world, tied("gpu", "nic", groups=4)).devices is not None
    found = searched(world, tied("gpu", "nic", groups=5))
    assert found.devices is None
    assert found.states <= FEW * 10


def test_requests_that_share_nothing_are_not_tried_in_all_combinations() -> None:
    """The boxes have room for three of the four shares, in sum for all; the pairs before them have many solutions."""
    world_of_pairs = pairs_world(list(range(10)), list(range(10)))
    made = [part("gpu", number, number) for number in range(10)] + [part("nic", number, number) for number in range(10)]
    made += [part("box", number, None, shareable=True, capacity={"mem": 100}) for number in range(2)]
    shares = [
        exactly(f"box{number}", 1, KIND.format("box"), capacity={"mem": 60 - 15 * (number == 3)}) for number in range(3)
    ]
    pairs = tied("gpu", "nic", groups=8)
    assert searched(world_of_pairs, pairs).devices is not None
    asked = claim(
        *[wants(kind, number) for kind in ("gpu", "nic") for number in range(8)],
        *shares,
        constraints=[
            {"requests": [f"gpu{number}", f"nic{number}"], "matchAttribute": "drv/root"} for number in range(8)
        ],
    )
    found = searched(World([resource_slice(*made)]), asked)
    assert found.devices is None
    assert found.states <= FEW * 19


# --- the same answer as the walk


def test_a_request_that_may_end_the_search_does_not_tie_those_before_it() -> None:
    """All of the NICs is an error once the GPUs are placed on different roots; the walk gets there."""
    numa = {"attributes": {"numa": 0}}
    made = [
        part("gpu", 0, 0, attributes={"numa": 1}),
        *(part("gpu", number, number, **numa) for number in (1, 2)),
        part("gpu", 3, 0, **numa),
        *(part("nic", number, number, shareable=True, **numa) for number in (0, 1)),
    ]
    asked = claim(
        wants("gpu", 0),
        wants("nic", 0),
        wants("gpu", 1),
        exactly("nic1", 1, KIND.format("nic"), allocationMode="All"),
        constraints=[
            {"requests": ["gpu0", "nic0", "nic1"], "matchAttribute": "drv/root"},
            {"requests": ["gpu1", "nic1"], "matchAttribute": "drv/root"},
            {"requests": ["gpu0", "nic0"], "matchAttribute": "drv/numa"},
        ],
    )
    assert compare_searches(World([resource_slice(*made)]), [asked]) == "errors"


@st.composite
def families(draw: st.DrawFn) -> tuple[World, list[ResourceClaim]]:
    """A node and claims for groups of devices on common roots, in all variations, most of them nearly solvable."""
    lists = draw(st.integers(0, 5)) == 0
    kinds = draw(st.sampled_from([("gpu", "nic"), ("gpu", "nic"), ("gpu", "nic", "nvme")]))
    roots = draw(st.integers(2, 4))
    has_counters, has_shares = draw(st.integers(0, 3)) == 0, draw(st.integers(0, 3)) == 0
    made = []
    for kind in kinds:
        for number in range(draw(st.integers(3, 5))):
            made.append(draw(members(kind, number, roots, lists=lists, counters=has_counters, shares=has_shares)))
    slices = [
        resource_slice(*made, name="s1", count=2),
        resource_slice(name="c1", count=2, counters={"g": {"m": draw(st.integers(2, 6))}}),
    ]
    taken = [] if draw(st.integers(0, 3)) else [held(made[0]["name"])]
    if made[0].get("allowMultipleAllocations"):
        taken = []
    claims = [draw(claims_over(kinds, "k0", 3 if len(kinds) < 3 else 2, lists=lists))]
    if draw(st.integers(0, 3)) == 0:
        claims.append(draw(claims_over(kinds, "k1", 1, lists=lists)))
    return World(slices, taken, features=Features(list_type_attributes=lists, derived_attributes=True)), claims


@st.composite
def members(
    draw: st.DrawFn, kind: str, number: int, roots: int, *, lists: bool, counters: bool, shares: bool
) -> dict[str, Any]:
    """A device on its root; one of ten is on another, or on none."""
    root = number % roots if draw(st.integers(0, 9)) else draw(st.sampled_from([None, 0, 1, 50]))
    attributes: dict[str, Any] = {"numa": [root or 0] if lists else (root or 0) // 2}
    if draw(st.booleans()):
        attributes["model"] = draw(st.sampled_from(["a", "b"]))
    more: dict[str, Any] = {"attributes": attributes}
    if counters and kind == "gpu":
        more["consumes"] = {"g": {"m": draw(st.integers(1, 2))}}
    if shares and kind == "nic":
        more |= {"shareable": draw(st.booleans()), "capacity": {"mem": 4}}
    if draw(st.integers(0, 15)) == 0:
        more["taints"] = {"k": "NoSchedule"}
    if lists and root is not None:
        return part(kind, number, draw(st.sampled_from([[root], [root, (root + 1) % roots]])), **more)
    return part(kind, number, root, **more)


@st.composite
def claims_over(draw: st.DrawFn, kinds: tuple[str, ...], name: str, most: int, *, lists: bool) -> ResourceClaim:
    """A claim for groups, with a constraint for each, and now and then others across them."""
    groups = draw(st.integers(1, most))
    places = [(kind, number) for kind in kinds for number in range(groups)]
    if draw(st.integers(0, 2)) == 0:
        places = draw(st.permutations(places))
    asked = [draw(requests_of(kind, number, lists=lists)) for kind, number in places]
    names = [f"{kind}{number}" for kind, number in places]
    constraints: list[dict[str, Any]] = []
    for number in range(groups):
        over = [f"{kind}{number}" for kind in kinds]
        if draw(st.integers(0, 7)) == 0:
            over.append(draw(st.sampled_from(names)))
        constraints.append({"matchAttribute": "drv/root", "requests": list(dict.fromkeys(over))})
    if draw(st.integers(0, 3)) == 0:
        constraints.append({"matchAttribute": "drv/numa", "requests": names[: draw(st.integers(1, len(names)))]})
    if draw(st.integers(0, 7)) == 0:
        constraints.append({"distinctAttribute": "drv/root", "requests": names[:groups]})
    if draw(st.integers(0, 5)) == 0:
        asked.append(exactly("plain", 1, KIND.format(draw(st.sampled_from(kinds)))))
    return claim(*asked, name=name, constraints=constraints)


@st.composite
def requests_of(draw: st.DrawFn, kind: str, number: int, *, lists: bool) -> dict[str, Any]:
    """Mostly one device of the kind; now and then two, all, alternatives, a model, a share, a derived root, or admin
    access."""
    name = f"{kind}{number}"
    one = KIND.format(kind)
    match draw(st.integers(0, 29)):
        case 0:
            return exactly(name, 2, one)
        case 1:
            return exactly(name, 1, one, allocationMode="All")
        case 2:
            return exactly(name, 1, one, adminAccess=True)
        case 3 | 4:
            return first_available(name, s0=exactly("s0", 2, one), s1=exactly("s1", 1, one))
        case 5 | 6 | 7:
            return exactly(name, 1, one, MODEL.format(draw(st.sampled_from(["a", "b"]))))
        case 10 if kind == "gpu":
            derived = [{"name": "drv/root", "expression": 'device.attributes["drv"].?root.orValue(0)'}]
            return exactly(name, 1, one, derivedAttributes=[] if lists else derived)
        case 8 | 9 if kind == "nic":
            return exactly(name, 1, one, capacity={"mem": 2})
        case _:
            return exactly(name, 1, one)


def test_groups_get_the_first_assignment_of_the_walk() -> None:
    """Of 150 random examples about a quarter have a solution."""
    compared: Counter[str] = Counter()

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(families())
    def compare(made: tuple[World, list[ResourceClaim]]) -> None:
        compared[compare_searches(*made)] += 1

    compare()
    assert compared["solutions"] >= 8, compared
    assert compared["refusals"] >= 20, compared


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 4), st.data())
def test_breaking_one_member_of_a_solvable_instance_is_answered_as_by_the_walk(
    groups: int, data: st.DataObject
) -> None:
    """Each group has a root of its own in any order, and one device is moved to another root."""
    nics = data.draw(st.permutations(range(groups)))
    world = pairs_world(list(range(groups)), list(nics))
    assert searched(world, tied("gpu", "nic", groups=groups)).devices is not None
    broken = list(nics)
    broken[data.draw(st.integers(0, groups - 1))] = data.draw(st.sampled_from([0, 50]))
    compare_searches(pairs_world(list(range(groups)), broken), [tied("gpu", "nic", groups=groups)])
