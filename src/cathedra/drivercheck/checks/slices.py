"""Published slices: docs/spec/driver-sdk.md §10 and §11, docs/spec/api.md §3.6."""

from __future__ import annotations

from collections import Counter
from typing import Final

from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.resource.slices.validation import validate_slice
from cathedra.releases import FeatureGates


async def _valid(bench: Bench) -> None:
    """Also where the server that took them is older than the rules."""
    gates = FeatureGates.for_release(overrides={"AllAlpha": True, "AllBeta": True})
    for one in await bench.claims.slices():
        if errors := validate_slice(one, None, RequestContext(gates=gates, now=0.0)):
            raise CheckFailed(f"slice {one.metadata.name}: {errors[0]}")


async def _once(bench: Bench) -> None:
    found = Counter(
        (one.spec.pool.name, device.name) for one in await bench.claims.slices() for device in one.spec.devices
    )
    twice = sorted("/".join(key) for key, count in found.items() if count > 1)
    if twice:
        raise CheckFailed(f"devices that are published twice: {', '.join(twice)}")


async def _owned(bench: Bench) -> None:
    for one in await bench.claims.slices():
        if not one.spec.node_name:
            continue
        owners = [(owner.kind, owner.name) for owner in one.metadata.owner_references]
        if ("Node", one.spec.node_name) not in owners:
            raise CheckFailed(f"slice {one.metadata.name} is not owned by Node {one.spec.node_name}, and outlives it")


async def _settled(bench: Bench) -> None:
    """Slices that are written again and again make every scheduler in the cluster look again."""
    before = [(one.metadata.uid, one.metadata.resource_version) for one in await bench.claims.slices()]
    await bench.prepare(await bench.claims.allocate())
    if [(one.metadata.uid, one.metadata.resource_version) for one in await bench.claims.slices()] != before:
        raise CheckFailed("its slices were written while nothing had changed")


CHECKS: Final = (
    PluginCheck("slices-valid", "every slice keeps the rules of the newest release", "docs/spec/api.md §3.6", _valid),
    PluginCheck("devices-once", "no device is published twice in a pool", "docs/spec/driver-sdk.md §10", _once),
    PluginCheck("slices-owned", "slices of a node are owned by the Node", "docs/spec/driver-sdk.md §10", _owned),
    PluginCheck("slices-settled", "preparing a claim writes no slice", "docs/spec/driver-sdk.md §11.3", _settled),
)
"""Of the slices as they are."""
