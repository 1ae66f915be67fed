"""Prepare and unprepare as they should go: docs/spec/driver-sdk.md §1 and §5."""

from __future__ import annotations

from typing import Final

from cathedra.api.resource import DeviceRequestAllocationResult
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed
from cathedra.node.plugins.client import ClaimReference, PluginCallError

_NEVER_SEEN: Final = ClaimReference("default", "11111111-1111-4111-8111-111111111111", "never-seen")


async def _allocated(bench: Bench) -> None:
    for version in bench.plugin.versions:
        claim = await bench.claims.allocate()
        wanted = {(one.pool, one.device) for one in claim.results}
        for device in await bench.prepare(claim, version):
            if (device.pool, device.device) not in wanted:
                raise CheckFailed(f"{version}: it prepared {device.pool}/{device.device}, which was not allocated")
            if set(device.request_names) - {one.request for one in claim.results}:
                raise CheckFailed(f"{version}: it names requests {device.request_names} that the claim does not have")
        await bench.unprepare(claim)


async def _complete(bench: Bench) -> None:
    claims = [await bench.claims.allocate(), await bench.claims.allocate()]
    uids = {claim.uid for claim in claims}
    try:
        prepared = await bench.plugin.prepare([claim.ref for claim in claims])
        unprepared = await bench.plugin.unprepare([claim.ref for claim in claims])
    except PluginCallError as error:
        raise CheckFailed(f"two claims in one call: {error}") from error
    for call, answered in (("prepare", set(prepared)), ("unprepare", set(unprepared))):
        if answered != uids:
            raise CheckFailed(f"{call}: two claims requested, {len(uids & answered)} of them are in the answer")


async def _idempotent(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    first, second = await bench.prepare(claim), await bench.prepare(claim)
    if first != second:
        raise CheckFailed(f"the second answer differs: {first} and {second}")


async def _versions_agree(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    answers = {version: await bench.prepare(claim, version) for version in bench.plugin.versions}
    # v1beta1 has no share IDs.
    forms = {tuple((one.pool, one.device, one.cdi_device_ids) for one in answer) for answer in answers.values()}
    if len(forms) > 1:
        raise CheckFailed(f"its versions answer differently: {answers}")


async def _unknown(bench: Bench) -> None:
    try:
        answers = await bench.plugin.unprepare([_NEVER_SEEN])
    except PluginCallError as error:
        raise CheckFailed(str(error)) from error
    if answers.get(_NEVER_SEEN.uid, "no answer"):
        raise CheckFailed(answers.get(_NEVER_SEEN.uid, "no answer"))


async def _deleted(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    await bench.prepare(claim)
    await bench.claims.delete(claim)
    await bench.unprepare(claim)
    await bench.unprepare(claim)


async def _foreign(bench: Bench) -> None:
    mine = await bench.claims.allocate()
    other = DeviceRequestAllocationResult(request="device", driver="other.example.com", pool="p", device="d")
    await bench.claims.delete(mine)
    claim = await bench.claims.another(mine, other)
    if any((device.pool, device.device) == ("p", "d") for device in await bench.prepare(claim)):
        raise CheckFailed("a device of another driver is in the answer")


async def _subrequest(bench: Bench) -> None:
    mine = await bench.claims.allocate()
    await bench.claims.delete(mine)
    claim = await bench.claims.alternative(mine)
    odd = {name for device in await bench.prepare(claim) for name in device.request_names if "/" in name}
    if odd:
        raise CheckFailed(f"request names with a subrequest part: {', '.join(sorted(odd))}")


CHECKS: Final = (
    PluginCheck(
        "prepares",
        "in every version it prepares and unprepares the allocated devices",
        "docs/spec/protocols.md §4",
        _allocated,
    ),
    PluginCheck(
        "answers-for-all", "every claim of a call is in the answer", "docs/spec/driver-sdk.md §1 (5)", _complete
    ),
    PluginCheck("idempotent", "preparing again gives the same answer", "docs/spec/driver-sdk.md §1 (1)", _idempotent),
    PluginCheck("versions-agree", "its versions give the same answer", "docs/spec/driver-sdk.md §5.4", _versions_agree),
    PluginCheck(
        "unknown-claim", "unpreparing what was never prepared succeeds", "docs/spec/driver-sdk.md §1 (1)", _unknown
    ),
    PluginCheck(
        "deleted-claim",
        "it unprepares twice, also when the claim is deleted",
        "docs/spec/driver-sdk.md §1 (3)",
        _deleted,
    ),
    PluginCheck("other-drivers", "devices of other drivers are left alone", "docs/spec/driver-sdk.md §1 (4)", _foreign),
    PluginCheck(
        "subrequests", "request names come back without their subrequest", "docs/spec/protocols.md §4", _subrequest
    ),
)
"""With one claim or two, one call at a time."""
