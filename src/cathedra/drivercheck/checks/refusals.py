"""Claims that a driver must refuse with an error: docs/spec/driver-sdk.md §1 and §5.2."""

from __future__ import annotations

from typing import Final

from cathedra.api.resource import DeviceAllocationConfiguration, OpaqueDeviceConfiguration
from cathedra.api.struct import RawJSON
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped
from cathedra.node.plugins.client import ClaimReference


async def _replaced(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    other = ClaimReference(claim.ref.namespace, "22222222-2222-4222-8222-222222222222", claim.ref.name)
    if not await bench.refuses(other):
        raise CheckFailed("it prepared a claim that has been replaced by another of the same name")


async def _unallocated(bench: Bench) -> None:
    if not await bench.refuses((await bench.claims.waiting()).ref):
        raise CheckFailed("it prepared a claim that has been allocated nothing")


async def _missing(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    await bench.claims.delete(claim)
    if not await bench.refuses(claim.ref):
        raise CheckFailed("it prepared a claim that does not exist")


async def _in_use(bench: Bench) -> None:
    first = await bench.claims.allocate()
    if any(result.share_id or result.admin_access for result in first.results):
        raise CheckSkipped("its devices may be used by several claims")
    await bench.prepare(first)
    await bench.claims.deallocate(first)
    second = await bench.claims.another(first)
    if not await bench.refuses(second.ref):
        raise CheckFailed(f"{first.results[0].device} was prepared for two claims at a time")
    await bench.unprepare(first)
    await bench.prepare(second)


async def _wrong_parameters(bench: Bench) -> None:
    """Check that the driver refuses wrong parameters, or has none, and in both cases responds and keeps running."""
    parameters = RawJSON.of({"apiVersion": "nothing.example.com/v1", "kind": "Unknown", "spec": [None, {"": -1}]})
    opaque = OpaqueDeviceConfiguration(driver=bench.plugin.info.name, parameters=parameters)
    claim = await bench.claims.configured((DeviceAllocationConfiguration(source="FromClaim", opaque=opaque),))
    await bench.refuses(claim.ref)
    await bench.unprepare(claim)
    await bench.claims.delete(claim)
    await bench.prepare(await bench.claims.allocate())


CHECKS: Final = (
    PluginCheck(
        "replaced-claim", "a claim that has been replaced is refused", "docs/spec/driver-sdk.md §5.2", _replaced
    ),
    PluginCheck(
        "unallocated-claim", "a claim without allocation is refused", "docs/spec/driver-sdk.md §5.2", _unallocated
    ),
    PluginCheck("missing-claim", "a claim that does not exist is refused", "docs/spec/driver-sdk.md §5.2", _missing),
    PluginCheck(
        "in-use", "a device of a prepared claim is refused to another", "docs/spec/driver-sdk.md §1 (2)", _in_use
    ),
    PluginCheck(
        "wrong-parameters", "unknown parameters harm no other claim", "docs/spec/driver-sdk.md §12", _wrong_parameters
    ),
)
"""Each with what must be possible afterwards."""
