"""A driver's process ends in every way, and another takes its place: docs/spec/driver-sdk.md §1, §3 and §7."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from cathedra.drivercheck.bench import Bench, prepared_by, unprepared_by
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped, DriverCheckError
from cathedra.node.plugins.client import PluginCallError

_POD_UID: Final = "33333333-3333-4333-8333-333333333333"
_GONE_SECONDS: Final = 60.0


async def _restart(bench: Bench) -> None:
    bench.require_program()
    claim = await bench.claims.allocate()
    before = await bench.prepare(claim)
    slices = [(one.metadata.uid, one.metadata.resource_version) for one in await bench.claims.slices()]
    await bench.restart()
    after = await bench.prepare(claim)
    if before != after:
        raise CheckFailed(f"the answer for a prepared claim is another one: {before} and {after}")
    bench.check_names(after)
    if [(one.metadata.uid, one.metadata.resource_version) for one in await bench.claims.slices()] != slices:
        raise CheckFailed("its slices were written again, although nothing had changed")


async def _later(bench: Bench) -> None:
    bench.require_program()
    claim = await bench.claims.allocate()
    await bench.prepare(claim)
    await bench.claims.delete(claim)
    await bench.restart()
    await bench.unprepare(claim)
    if left := bench.documents_of(claim):
        raise CheckFailed(f"documents of the claim are still there: {left[0].name}")


async def _killed(bench: Bench) -> None:
    bench.require_program()
    claim = await bench.claims.allocate()
    call = asyncio.ensure_future(bench.plugin.prepare([claim.ref]))
    await asyncio.sleep(0)
    await bench.restart(kill=True)
    with contextlib.suppress(PluginCallError):
        await call
    bench.check_names(await bench.prepare(claim))
    await bench.unprepare(claim)


async def _reboot(bench: Bench) -> None:
    bench.require_program()
    claim = await bench.claims.allocate()
    await bench.prepare(claim)
    await bench.restart(kill=True, reboot=True)
    bench.check_names(await bench.prepare(claim))


async def _remembers(bench: Bench) -> None:
    """Only a checkpoint shows a new process that a device is in use."""
    bench.require_program()
    first = await bench.claims.allocate()
    if any(result.share_id or result.admin_access for result in first.results):
        raise CheckSkipped("its devices may be used by several claims")
    await bench.prepare(first)
    await bench.claims.deallocate(first)
    second = await bench.claims.another(first)
    await bench.restart(kill=True)
    if not await bench.refuses(second.ref):
        device = first.results[0].device
        raise CheckFailed(f"after its process was killed, {device} of a prepared claim was prepared for another claim")


async def _overlap(bench: Bench) -> None:
    """Start a second instance before the first one ends, as a rolling update with surge does."""
    program = bench.require_program()
    claim = await bench.claims.allocate()
    before = await bench.prepare(claim)
    socket = bench.plugin.info.socket
    try:
        newer = await bench.join(bench.plugin.info.name, program, but=frozenset({socket}), pod_uid=_POD_UID)
    except DriverCheckError as error:
        raise CheckSkipped(f"a second instance with POD_UID shows no socket of its own ({error})") from error
    try:
        if await prepared_by(newer.plugin, claim.ref) != before:
            raise CheckFailed("the newer instance answers otherwise for a prepared claim")
        await unprepared_by(newer.plugin, claim.ref)
        await bench.unprepare(claim)
        await bench.end(newer)
    finally:
        assert newer.process is not None, "it was started here"
        await program.kill(newer.process)


async def _stops(bench: Bench) -> None:
    bench.require_program()
    socket, driver = bench.plugin.info.socket, bench.plugin.info.name
    await bench.end(bench.instance)
    try:
        async with asyncio.timeout(_GONE_SECONDS):
            await bench.directory.until_gone(socket)
    except TimeoutError as error:
        raise CheckFailed(f"its registration socket {socket.name} is still there after it has ended") from error
    finally:
        await bench.connect(driver)
    if not await bench.claims.slices():
        raise CheckFailed("its slices went with it; every restart would take the devices from the cluster")


CHECKS: Final = (
    PluginCheck(
        "restart", "a new process gives the same answer and writes no slice", "docs/spec/driver-sdk.md §1 (1)", _restart
    ),
    PluginCheck(
        "unprepare-later",
        "a new process unprepares, also when the claim is deleted",
        "docs/spec/driver-sdk.md §1 (3)",
        _later,
    ),
    PluginCheck(
        "killed",
        "a driver that dies while preparing completes the claim after its restart",
        "docs/spec/driver-sdk.md §1 (1)",
        _killed,
    ),
    PluginCheck(
        "reboot", "prepare writes again the files that a reboot removed", "docs/spec/driver-sdk.md §1 (1)", _reboot
    ),
    PluginCheck(
        "remembers", "a new process knows which devices are in use", "docs/spec/driver-sdk.md §1 (2)", _remembers
    ),
    PluginCheck(
        "overlap", "two instances share their claims in a rolling update", "docs/spec/driver-sdk.md §7", _overlap
    ),
    PluginCheck("stops", "at SIGTERM it ends and removes its socket", "docs/spec/driver-sdk.md §3", _stops),
)
"""From the gentle to the rough, and the end."""
