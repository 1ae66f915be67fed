"""One driver on two nodes: docs/spec/driver-sdk.md §10 and §11, docs/spec/allocation.md §4.

Two kubelets and two instances of the driver share one API server. What an instance does for its node must leave the
other node's slices, claims and documents as they are.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped


async def _pools_apart(bench: Bench) -> None:
    neighbour = bench.require_neighbour()
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for one in (*await bench.claims.slices(), *await neighbour.claims.slices()):
        if one.spec.node_name:
            nodes[one.spec.pool.name].add(one.spec.node_name)
    for pool, found in sorted(nodes.items()):
        if len(found) > 1:
            # The name of a pool is unique in the cluster for a driver: a scheduler takes these slices for one pool,
            # whose older generation is obsolete, or whose number of slices is wrong.
            raise CheckFailed(
                f"pool {pool} is published for {' and '.join(sorted(found))}: a scheduler takes the slices of both for "
                "one pool; a pool of one node is named after the node"
            )


async def _versions(bench: Bench) -> list[tuple[str, str]]:
    return [(one.metadata.uid, one.metadata.resource_version) for one in await bench.claims.slices()]


async def _nodes_at_once(bench: Bench) -> None:
    neighbour = bench.require_neighbour()
    mine, theirs = await bench.claims.allocate(), await neighbour.claims.allocate()
    first, second = await asyncio.gather(bench.prepare(mine), neighbour.prepare(theirs))
    bench.check_names(first)
    neighbour.check_names(second)
    await bench.unprepare(mine)
    neighbour.check_names(await neighbour.prepare(theirs))


async def _neighbours(bench: Bench) -> None:
    neighbour = bench.require_neighbour()
    bench.require_program()
    before = await _versions(neighbour)
    await bench.restart()
    if await _versions(neighbour) != before:
        raise CheckFailed("its start on one node has written or removed slices of the other")


async def _node_left(bench: Bench) -> None:
    neighbour = bench.require_neighbour()
    neighbour.require_program()
    if not all(one.spec.node_name for one in await neighbour.claims.slices()):
        raise CheckSkipped("it publishes devices of the network, which outlive a node")
    before = await _versions(bench)
    await neighbour.rejoin()
    uid = await neighbour.claims.node_uid()
    for one in await neighbour.claims.slices():
        if uid not in [owner.uid for owner in one.metadata.owner_references]:
            raise CheckFailed(
                f"slice {one.metadata.name} is not owned by the node that has joined again under its name, and the "
                "garbage collector removes it"
            )
    if await _versions(bench) != before:
        raise CheckFailed("when one node left, slices of the other were written or removed")
    neighbour.check_names(await neighbour.prepare(await neighbour.claims.allocate()))


CHECKS: Final = (
    PluginCheck("pools-apart", "pools of two nodes have different names", "docs/spec/driver-sdk.md §10", _pools_apart),
    PluginCheck(
        "nodes-at-once", "claims of two nodes are prepared at a time", "docs/spec/driver-sdk.md §7", _nodes_at_once
    ),
    PluginCheck(
        "neighbours", "a start on one node leaves the other's slices", "docs/spec/driver-sdk.md §11", _neighbours
    ),
    PluginCheck(
        "node-left",
        "a node that left and joins again gets slices of its own",
        "docs/spec/driver-sdk.md §10",
        _node_left,
    ),
)
"""From names to nodes that come and go."""
