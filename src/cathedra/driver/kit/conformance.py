"""Conformance checks for any driver (docs/spec/driver-sdk.md §1 and §21.8).

Each check gets a fresh kit and raises `CheckFailed` with its observation. The class `Driver` guarantees much of this by
itself; the checks are for a driver's own code, and for drivers that disable something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cathedra.api.resource import DeviceRequestAllocationResult
from cathedra.cdi.spec import CDIError
from cathedra.driver.claim import Claim, Prepared, Ref
from cathedra.driver.driver import Driver, collect
from cathedra.driver.errors import CallFailed
from cathedra.driver.kit.bench import Kit, KitError
from cathedra.driver.preparing.checkpoint import DeviceAnswer
from cathedra.driver.publishing.layout import MAX_DEVICES


class CheckFailed(Exception):
    """The driver violates a rule. The text has the observation."""


class _Death(BaseException):
    """Simulates the end of the process: no handler catches it."""


class CheckSkipped(Exception):
    """The driver lacks what the check needs. The text names it."""


@dataclass(frozen=True, slots=True)
class Check:
    """A rule for drivers, in one sentence, and its check."""

    name: str
    rule: str
    run: Callable[[Kit], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check: ``passed``, ``failed`` or ``skipped``, and the reason."""

    check: Check
    outcome: str
    reason: str = ""


async def check_driver(make_driver: Callable[[], Driver]) -> list[CheckResult]:
    """Run all checks, each on a kit of its own."""
    return [await _run(check, make_driver) for check in CHECKS]


async def _run(check: Check, make_driver: Callable[[], Driver]) -> CheckResult:
    try:
        async with Kit(make_driver) as kit:
            await check.run(kit)
    except CheckSkipped as reason:
        return CheckResult(check, "skipped", str(reason))
    except (CheckFailed, KitError, CallFailed, CDIError) as error:
        return CheckResult(check, "failed", str(error))
    return CheckResult(check, "passed")


async def _device(kit: Kit) -> str:
    devices = await kit.devices()
    if not devices:
        raise CheckSkipped("the driver has published no device")
    return devices[0][1]


def _names(devices: Sequence[DeviceAnswer]) -> list[tuple[str, ...]]:
    return [device.cdi_device_ids for device in devices]


async def _publishes(kit: Kit) -> None:
    slices = await kit.slices()
    if not slices:
        raise CheckFailed("no slice means «the driver is not running»; publish an empty one")
    for found in slices:
        if len(found.spec.devices) > MAX_DEVICES:
            raise CheckFailed(f"slice {found.metadata.name} has {len(found.spec.devices)} devices")
        of_pool = [s for s in slices if s.spec.pool.name == found.spec.pool.name]
        if len(of_pool) != found.spec.pool.resource_slice_count:
            raise CheckFailed(f"pool {found.spec.pool.name} is incomplete")
    devices = await kit.devices()
    twice = sorted({device for device in devices if devices.count(device) > 1})
    if twice:
        raise CheckFailed(f"devices are published twice: {twice}")


async def _slices_survive(kit: Kit) -> None:
    before = [(s.metadata.uid, s.metadata.resource_version) for s in await kit.slices()]
    await kit.restart()
    await asyncio.sleep(0.1)
    if [(s.metadata.uid, s.metadata.resource_version) for s in await kit.slices()] != before:
        raise CheckFailed("after a restart the slices are others, or were written again")


async def _no_claims(kit: Kit) -> None:
    if await kit.prepare_all():
        raise CheckFailed("an answer for claims that were not requested")


async def _idempotent(kit: Kit) -> None:
    claim = await kit.claim(await _device(kit))
    first, second = await kit.prepare(claim), await kit.prepare(claim)
    if first != second:
        raise CheckFailed(f"the second answer differs: {first} and {second}")


async def _complete(kit: Kit) -> None:
    devices = [name for _, name in await kit.devices()][:2]
    claims = [await kit.claim(device) for device in devices]
    answers = await kit.prepare_all(*claims)
    if set(answers) != {claim.uid for claim in claims}:
        raise CheckFailed(f"{len(claims)} claims requested, {len(answers)} answered")


async def _resolvable(kit: Kit) -> None:
    kit.edits(await kit.prepare(await kit.claim(await _device(kit))))


async def _restart(kit: Kit) -> None:
    claim = await kit.claim(await _device(kit))
    before = await kit.prepare(claim)
    await kit.restart()
    after = await kit.prepare(claim)
    if _names(before) != _names(after):
        raise CheckFailed(f"after a restart the CDI names are others: {_names(before)} and {_names(after)}")
    kit.edits(after)


async def _reboot(kit: Kit) -> None:
    claim = await kit.claim(await _device(kit))
    await kit.prepare(claim)
    await kit.reboot()
    kit.edits(await kit.prepare(claim))


async def _lost_files(kit: Kit) -> None:
    claim = await kit.claim(await _device(kit))
    await kit.prepare(claim)
    for path in _files(kit):
        path.unlink()
    kit.edits(await kit.prepare(claim))


async def _unknown(kit: Kit) -> None:
    await kit.unprepare(Ref("default", "never-seen", "11111111-1111-4111-8111-111111111111"))


async def _unprepare_later(kit: Kit) -> None:
    claim = await kit.claim(await _device(kit))
    await kit.prepare(claim)
    await kit.delete(claim)
    await kit.restart()
    await kit.unprepare(claim)
    await kit.unprepare(claim)
    left = [path.name for path in _files(kit) if claim.uid in path.name]
    if left:
        raise CheckFailed(f"CDI files of the claim are still there: {left}")


async def _foreign(kit: Kit) -> None:
    other = DeviceRequestAllocationResult(request="other", driver="other.example.com", pool="p", device="d")
    answer = await kit.prepare(await kit.claim(await _device(kit), others=(other,)))
    if any(device.device_name == "d" for device in answer):
        raise CheckFailed("a device of another driver is in the answer")


async def _replaced(kit: Kit) -> None:
    claim = await kit.claim(await _device(kit))
    foreign = Ref(claim.namespace, claim.name, "22222222-2222-4222-8222-222222222222")
    try:
        answers = await kit.prepare_all(foreign)
    except CallFailed:
        return
    if not answers[foreign.uid].error:
        raise CheckFailed("a claim was prepared that has been replaced by another of the same name")


async def _in_use(kit: Kit) -> None:
    device = await _device(kit)
    first, second = await kit.claim(device), await kit.claim(device)
    await kit.prepare(first)
    if not (await kit.prepare_all(second))[second.uid].error:
        raise CheckFailed(f"{device} was prepared for two claims at a time")
    await kit.unprepare(first)
    await kit.prepare(second)


async def _subrequest(kit: Kit) -> None:
    answer = await kit.prepare(await kit.claim(await _device(kit), request="device/first"))
    names = {name for device in answer for name in device.request_names}
    if names - {"device"}:
        raise CheckFailed(f"request names with a subrequest part: {sorted(names)}")


async def _interrupted(kit: Kit) -> None:
    """Kill the driver after it has changed the device and before it has answered."""
    claim = await kit.claim(await _device(kit))
    driver = kit.driver
    prepare = driver.prepare

    async def die(of: Claim) -> Iterator[Prepared]:
        await collect(prepare(of))
        raise _Death

    driver.prepare = die  # type: ignore[method-assign,assignment]  # the one way to die at exactly this moment
    try:
        await kit.prepare_all(claim)
    except _Death:
        await kit.restart()
    kit.edits(await kit.prepare(claim))
    await kit.unprepare(claim)


def _files(kit: Kit) -> list[Path]:
    return sorted(kit.cdi_directory.glob("*")) if kit.cdi_directory.exists() else []


CHECKS: Final = (
    Check("publishes", "at least one slice, no device twice, pools complete", _publishes),
    Check("slices-survive", "a restart changes no slice", _slices_survive),
    Check("no-claims", "a call without claims is answered with nothing", _no_claims),
    Check("idempotent", "preparing again gives the same answer", _idempotent),
    Check("complete", "every claim of a call gets an answer", _complete),
    Check("resolvable", "every CDI name is in a valid file when the call returns", _resolvable),
    Check("restart", "a new process gives the same CDI names", _restart),
    Check("reboot", "CDI files that a reboot has removed are written again", _reboot),
    Check("lost-files", "CDI files that were removed are written again", _lost_files),
    Check("unknown", "unpreparing a claim that is not known succeeds", _unknown),
    Check(
        "unprepare-later",
        "a new process unprepares, also when the claim is deleted, and removes its files",
        _unprepare_later,
    ),
    Check("foreign", "devices of other drivers are left alone", _foreign),
    Check("replaced", "a claim that has been replaced is refused", _replaced),
    Check("in-use", "a device of a prepared claim is refused to another", _in_use),
    Check("subrequest", "request names come back without their subrequest", _subrequest),
    Check("interrupted", "a driver that dies while preparing completes the claim after its restart", _interrupted),
)
"""All checks, in an order in which a new driver's author meets them."""
