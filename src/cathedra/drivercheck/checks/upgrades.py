"""The driver's previous version and this one: upgrade, downgrade, and both at a time. docs/spec/driver-sdk.md §7.

What one version has prepared, the other must know: checkpoints and CDI documents are read by both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from cathedra.drivercheck.bench import Bench, prepared_by, unprepared_by
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed, DriverCheckError
from cathedra.drivercheck.program import DriverProgram

_POD_UID: Final = "44444444-4444-4444-8444-444444444444"


@asynccontextmanager
async def _running(bench: Bench, program: DriverProgram) -> AsyncIterator[None]:
    """Run ``program`` during the block, and the driver itself afterwards."""
    usual = bench.require_program()
    try:
        await _switch(bench, program)
        yield
    finally:
        await _switch(bench, usual)


async def _switch(bench: Bench, program: DriverProgram) -> None:
    try:
        await bench.switch(program)
    except DriverCheckError as error:
        raise CheckFailed(f"after the change of version it does not come back: {error}") from error


async def _replaced(bench: Bench, first: DriverProgram, second: DriverProgram) -> None:
    """Have ``second`` take over from ``first``, beside it if both can run at a time, else after it."""
    async with _running(bench, first):
        claim, ended = await bench.claims.allocate(), await bench.claims.allocate()
        before, _ = await bench.prepare(claim), await bench.prepare(ended)
        await _take_over(bench, second)
        after = await bench.prepare(claim)
        if before != after:
            raise CheckFailed(f"the other version answers otherwise for a prepared claim: {before} and {after}")
        bench.check_names(after)
        # One claim is prepared again and one is not: a pod may end before anything calls the new version for it.
        for one in (ended, claim):
            await bench.unprepare(one)
            if left := bench.documents_of(one):
                raise CheckFailed(f"what the other version wrote for the claim is still there: {left[0].name}")


async def _take_over(bench: Bench, second: DriverProgram) -> None:
    driver, socket = bench.plugin.info.name, bench.plugin.info.socket
    try:
        newer = await bench.join(driver, second, but=frozenset({socket}), pod_uid=_POD_UID)
    except DriverCheckError:
        # Without a socket of its own for each instance there is no surge: the pod is replaced instead.
        await _switch(bench, second)
        return
    await bench.hand_over(newer, second)
    await bench.until_published()


async def _upgrade(bench: Bench) -> None:
    await _replaced(bench, bench.require_previous(), bench.require_program())


async def _downgrade(bench: Bench) -> None:
    await _replaced(bench, bench.require_program(), bench.require_previous())


async def _mixed(bench: Bench) -> None:
    """Half of a rolling update: one node has the previous version, the other this one."""
    neighbour = bench.require_neighbour()
    async with _running(neighbour, neighbour.require_previous()):
        mine, theirs = await bench.claims.allocate(), await neighbour.claims.allocate()
        for one, claim in ((bench, mine), (neighbour, theirs)):
            for version in one.plugin.versions:
                one.check_names(await prepared_by(one.plugin, claim.ref, version))
            await unprepared_by(one.plugin, claim.ref)


CHECKS: Final = (
    PluginCheck(
        "upgrade",
        "this version resumes the claims that the previous one prepared",
        "docs/spec/driver-sdk.md §7",
        _upgrade,
    ),
    PluginCheck(
        "downgrade",
        "the previous version resumes the claims that this one prepared",
        "docs/spec/driver-sdk.md §7",
        _downgrade,
    ),
    PluginCheck(
        "mixed-versions",
        "two nodes of two versions prepare in every version of the interface",
        "docs/spec/driver-sdk.md §7",
        _mixed,
    ),
)
"""Back and forth, then both at a time."""
