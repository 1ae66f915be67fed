"""The pools of a node."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation.features import Features, behaviour_of
from cathedra.allocation.supply.ledger import PoolState
from cathedra.allocation.supply.pools import NodeSupplyCache, PoolStatus
from cathedra.api.resource import ResourceSlice
from tests.unit.allocation.building import World, held, node, resource_slice


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    world = World([resource_slice("old", name="s1"), resource_slice("new", name="s2", generation=2)])
    supply = NodeSupplyCache(world.inventory.snapshot(), world.features).of(node())
    assert [record.name for record in supply.devices] == ["new"]


def test_a_node_sees_what_targets_it_by_name_or_all_nodes() -> None:
    world = World(
        [
            resource_slice("mine", pool="p"),
            resource_slice("theirs", name="t", pool="q", node="birch"),
            resource_slice("everywhere", name="u", pool="r", node=None, allNodes=True),
        ]
    )
    supplies = NodeSupplyCache(world.inventory.snapshot(), world.features)
    assert sorted(record.name for record in supplies.of(node()).devices) == ["everywhere", "mine"]
    assert sorted(record.name for record in supplies.of(node("birch")).devices) == ["everywhere", "theirs"]


def test_a_pool_with_a_slice_missing_is_not_complete() -> None:
    world = World([resource_slice("a", count=2)])
    supply = NodeSupplyCache(world.inventory.snapshot(), world.features).of(node())
    assert [pool.status for pool in supply.pools] == [PoolStatus.INCOMPLETE]
    assert not supply.devices


def test_up_to_1_34_a_slice_with_counters_has_devices_too() -> None:
    counters = {"sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]}
    slices = [resource_slice("part", **counters)]
    for release, names in (("1.34", ["part"]), ("1.35", [])):
        features = Features.from_names({"PartitionableDevices": True}, behaviour_of(release))
        supply = NodeSupplyCache(World(slices).inventory.snapshot(), features).of(node())
        assert [record.name for record in supply.devices] == names
        assert len(supply.pools[0].counters) == 1


MANY = 70


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, MANY - 1)), max_size=12), st.integers(1, 4))
def test_the_states_of_many_pools_are_those_of_each(steps: list[tuple[bool, int]], every: int) -> None:
    world = World([resource_slice("a", "b", name=f"s{one}", pool=f"p{one}") for one in range(MANY)])
    supply = NodeSupplyCache(world.inventory.snapshot(), world.features).of(node())
    for number, (added, one) in enumerate(steps):
        holder = held("a", name=f"h{one}", pool=f"p{one}")
        (world.ledger.add if added else world.ledger.remove)(holder)
        if number % every:
            continue
        ledger = world.ledger.snapshot()
        found = [state.taken for state in supply.states(ledger, shares=True)]
        assert found == [PoolState.of(pool, ledger.pool(pool.id), shares=True).taken for pool in supply.usable]


def in_zone(zone: str) -> dict[str, object]:
    wanted = {"key": "zone", "operator": "In", "values": [zone]}
    return {"node": None, "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}


def test_nodes_whose_labels_are_the_same_share_a_view_unless_names_matter() -> None:
    world = World([resource_slice("a", name="s", pool="p", **in_zone("x"))])
    nodes = [node("n1", zone="x"), node("n2", zone="x"), node("n3", zone="y")]

    def seen() -> list[object]:
        supplies = NodeSupplyCache(world.inventory.snapshot(), world.features)
        return [supplies.of(one) for one in nodes]

    first, second, third = seen()
    assert first is second
    assert first is not third
    world.inventory.add_slice(resource_slice("own", name="t", pool="q", node="n2"))
    after = seen()
    assert after[0] is first
    assert after[1] is not first
    named = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    world.inventory.add_slice(resource_slice("b", name="u", pool="r", node=None, nodeSelector=named))
    supplies = NodeSupplyCache(world.inventory.snapshot(), world.features)
    assert [[str(record) for record in supplies.of(one).devices] for one in nodes] == [
        ["drv/p/a", "drv/r/b"],
        ["drv/p/a", "drv/q/own"],
        [],
    ]


def test_pools_whose_counters_have_other_policies_are_seen_as_different() -> None:
    def counters(name: str, policy: dict[str, Any]) -> ResourceSlice:
        given = {"value": "10", "requestPolicy": policy}
        sets = [{"name": "set", "counters": {"memory": given}}]
        return resource_slice(name=f"{name}-c", node=name, pool=name, count=2, sharedCounters=sets)

    def whole(name: str, policy: dict[str, Any]) -> list[ResourceSlice]:
        return [counters(name, policy), resource_slice("a", name=name, node=name, pool=name, count=2)]

    one, other = {"default": "1"}, {"default": "2"}
    world = World([*whole("ash", one), *whole("birch", one), *whole("cedar", other)])
    supplies = NodeSupplyCache(world.inventory.snapshot(), world.features)
    ash, birch, cedar = (supplies.of(node(name)).shape_under(()) for name in ("ash", "birch", "cedar"))
    assert ash == birch != cedar
