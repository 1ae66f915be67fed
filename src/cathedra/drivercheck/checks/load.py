"""Calls that overlap, calls that are given up, and claims as large as they get."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from cathedra.api.resource import DeviceAllocationConfiguration, OpaqueDeviceConfiguration
from cathedra.api.struct import RawJSON
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped
from cathedra.node.plugins.client import PluginCallError

_CALLS: Final = 16
_MOST_RESULTS: Final = 32
_PARAMETER_BYTES: Final = 10_000
"""Close to the 10 KiB that an API server accepts for one configuration."""


async def _parallel(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    answers = await asyncio.gather(*(bench.prepare(claim) for _ in range(_CALLS)))
    if len(set(answers)) > 1:
        raise CheckFailed(f"{_CALLS} calls at a time for one claim got {len(set(answers))} different answers")
    bench.check_names(answers[0])


async def _parallel_claims(bench: Bench) -> None:
    first, second = await bench.claims.allocate(), await bench.claims.allocate()
    for _ in range(4):
        await asyncio.gather(bench.prepare(first), bench.prepare(second))
        await asyncio.gather(bench.unprepare(first), bench.prepare(second))
        bench.check_names(await bench.prepare(second))


async def _cancelled(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    call = asyncio.ensure_future(bench.plugin.prepare([claim.ref]))
    await asyncio.sleep(0)
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError, PluginCallError):
        await call
    bench.check_names(await bench.prepare(claim))
    await bench.unprepare(claim)
    if left := bench.documents_of(claim):
        raise CheckFailed(f"after a call that was given up, unprepare leaves {left[0].name}")


async def _large(bench: Bench) -> None:
    count = _MOST_RESULTS
    while True:
        try:
            claim = await bench.claims.allocate(count)
            break
        except CheckSkipped:
            if count == 1:
                raise
            count //= 2
    devices = await bench.prepare(claim)
    bench.check_names(devices)
    if {device.device for device in devices} - {result.device for result in claim.results}:
        raise CheckFailed("it prepared devices that were not allocated")


async def _many_configurations(bench: Bench) -> None:
    """Configurations for another driver, which this one must ignore, however large they are."""
    opaque = OpaqueDeviceConfiguration(
        driver="other.example.com", parameters=RawJSON.of({"text": "x" * _PARAMETER_BYTES})
    )
    claim = await bench.claims.configured((DeviceAllocationConfiguration(source="FromClaim", opaque=opaque),) * 32)
    await bench.prepare(claim)


CHECKS: Final = (
    PluginCheck("parallel-calls", "overlapping calls for a claim agree", "docs/spec/driver-sdk.md §7", _parallel),
    PluginCheck(
        "parallel-claims",
        "overlapping calls for two claims disturb neither",
        "docs/spec/driver-sdk.md §7",
        _parallel_claims,
    ),
    PluginCheck(
        "cancelled-call", "a call that is given up leaves nothing half done", "docs/spec/driver-sdk.md §5.5", _cancelled
    ),
    PluginCheck("large-claim", f"a claim with up to {_MOST_RESULTS} devices", "docs/spec/api.md §3.4", _large),
    PluginCheck(
        "large-parameters", "320 KB of other drivers' parameters", "docs/spec/driver-sdk.md §12", _many_configurations
    ),
)
"""From the small to the large."""
