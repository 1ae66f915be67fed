"""Features that only some drivers offer: partitions, shared capacity, and metadata of devices.

docs/spec/allocation.md, docs/spec/api.md §3.6, docs/spec/driver-sdk.md §9. A driver that publishes nothing of the kind
is skipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cathedra.api import resource
from cathedra.api.quantity import Quantity
from cathedra.cdi.catalogue import load
from cathedra.devicemetadata import (
    CONTAINER_DIRECTORY,
    DeviceMetadata,
    MetadataError,
    decode_metadata_stream,
    validate,
)
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.claims import AllocatedClaim
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped

_PARTITIONS: Final = "partitionable"
_SHARES: Final = "shared capacity"
_METADATA: Final = "metadata"


# --- partitions

CounterKey = tuple[str, str, str]
"""Pool, counter set, counter."""
_Cost = Mapping[CounterKey, Quantity]


def _supply(slices: list[resource.ResourceSlice]) -> dict[CounterKey, Quantity]:
    return {
        (one.spec.pool.name, counters.name, name): counter.value
        for one in slices
        for counters in one.spec.shared_counters
        for name, counter in counters.counters.items()
        if counter.value is not None
    }


def _costs(slices: list[resource.ResourceSlice]) -> dict[tuple[str, str], _Cost]:
    return {
        (one.spec.pool.name, device.name): {
            (one.spec.pool.name, consumed.counter_set, name): counter.value
            for consumed in device.consumes_counters
            for name, counter in consumed.counters.items()
            if counter.value is not None
        }
        for one in slices
        for device in one.spec.devices
        if device.consumes_counters
    }


async def _partitions(bench: Bench) -> tuple[dict[CounterKey, Quantity], dict[tuple[str, str], _Cost]]:
    slices = await bench.claims.slices()
    costs = _costs(slices)
    if not costs:
        raise CheckSkipped("it publishes no device that consumes counters")
    return _supply(slices), costs


async def _counters_suffice(bench: Bench) -> None:
    supply, costs = await _partitions(bench)
    for (pool, device), cost in costs.items():
        for key, amount in cost.items():
            if key not in supply:
                raise CheckFailed(
                    f"{pool}/{device} consumes counter {key[2]} of {key[1]}, which its pool does not have"
                )
            if amount > supply[key]:
                raise CheckFailed(
                    f"{pool}/{device} consumes {amount} of counter {key[2]}, of which {key[1]} has {supply[key]}: "
                    "it is never allocated"
                )


async def _partitions_together(bench: Bench) -> None:
    supply, costs = await _partitions(bench)
    pair = _pair(supply, costs)
    if pair is None:
        raise CheckSkipped("no two of its partitions fit into one counter set")
    first, second = [await bench.claims.of_devices([one]) for one in pair]
    bench.check_names(await bench.prepare(first))
    before = await bench.prepare(second)
    await bench.unprepare(first)
    if await bench.prepare(second) != before:
        raise CheckFailed(f"when {pair[0][1]} was unprepared, the answer for its sibling {pair[1][1]} changed")
    bench.check_names(before)


def _pair(
    supply: Mapping[CounterKey, Quantity], costs: Mapping[tuple[str, str], _Cost]
) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """Two devices of one counter set that can be in use at a time."""
    sharers: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for device, cost in costs.items():
        for counters in dict.fromkeys(key[:2] for key in cost):
            sharers[counters].append(device)
    for devices in sharers.values():
        for first in devices:
            for second in devices:
                if first < second and _fit(supply, costs[first], costs[second]):
                    return first, second
    return None


def _fit(supply: Mapping[CounterKey, Quantity], first: _Cost, second: _Cost) -> bool:
    none = Quantity(0)
    return all(first.get(key, none) + second.get(key, none) <= supply.get(key, none) for key in {*first, *second})


# --- shared capacity


async def _shares(bench: Bench) -> tuple[AllocatedClaim, AllocatedClaim]:
    """Two claims that share one device."""
    shared = {
        (one.spec.pool.name, device.name)
        for one in await bench.claims.slices()
        for device in one.spec.devices
        if device.allow_multiple_allocations
    }
    if not shared:
        raise CheckSkipped("it publishes no device that several claims may share")
    first, second = await bench.claims.allocate(), await bench.claims.allocate()
    of_both = [{(one.pool, one.device) for one in claim.results} & shared for claim in (first, second)]
    if not of_both[0] & of_both[1]:
        raise CheckSkipped("two of the smallest requests do not fit on one of its devices")
    return first, second


async def _share_ids(bench: Bench) -> None:
    for claim in await _shares(bench):
        wanted = {(one.pool, one.device): one.share_id for one in claim.results}
        for device in await bench.prepare(claim):
            share = wanted.get((device.pool, device.device))
            if (device.share_id or None) != share:
                raise CheckFailed(
                    f"its answer for {device.pool}/{device.device} has the share ID {device.share_id or 'none'}, the "
                    f"allocation {share}"
                )


async def _shares_apart(bench: Bench) -> None:
    first, second = await _shares(bench)
    await bench.prepare(first)
    before = await bench.prepare(second)
    await bench.unprepare(first)
    if await bench.prepare(second) != before:
        raise CheckFailed("when one share of a device was unprepared, the answer for the other share changed")
    bench.check_names(before)


# --- metadata


async def _files(bench: Bench, claim: AllocatedClaim) -> list[Path]:
    """Return the metadata files that the CDI documents of a prepared claim mount.

    Raises:
        CheckSkipped: there are none.
    """
    names = {name for device in await bench.prepare(claim) for name in device.cdi_device_ids}
    edits = load(bench.cdi_directories).edits(sorted(names))
    base = str(CONTAINER_DIRECTORY)
    found = [Path(mount.host_path) for mount in edits.mounts if mount.container_path.startswith(f"{base}/")]
    if not found:
        raise CheckSkipped("its CDI documents mount no device metadata")
    return found


def _read(path: Path) -> DeviceMetadata:
    try:
        return decode_metadata_stream(path.read_bytes())
    except (OSError, MetadataError) as error:
        raise CheckFailed(f"{path.name}: {error}") from error


async def _metadata_valid(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    allocated = {(one.driver, one.pool, one.device) for one in claim.results}
    for path in await _files(bench, claim):
        metadata = _read(path)
        if findings := validate(metadata):
            raise CheckFailed(f"{path.name}: {'; '.join(findings)}")
        if (metadata.claim.namespace, metadata.claim.name, metadata.claim.uid) != (
            claim.ref.namespace,
            claim.ref.name,
            claim.uid,
        ):
            raise CheckFailed(f"{path.name} is about claim {metadata.claim.namespace}/{metadata.claim.name}")
        described = {(one.driver, one.pool, one.name) for request in metadata.requests for one in request.devices}
        if described - allocated:
            raise CheckFailed(f"{path.name} describes devices that were not allocated: {sorted(described - allocated)}")


async def _metadata_removed(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    files = await _files(bench, claim)
    await bench.unprepare(claim)
    if left := [path for path in files if path.exists()]:
        raise CheckFailed(f"{left[0].name} is still there after unprepare")


async def _metadata_restored(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    files = await _files(bench, claim)
    for path in files:
        path.unlink()
    for path in await _files(bench, claim):
        _read(path)


CHECKS: Final = (
    PluginCheck(
        "counters-suffice",
        "no partition consumes more than its counter set has",
        "docs/spec/api.md §3.6",
        _counters_suffice,
        _PARTITIONS,
    ),
    PluginCheck(
        "partitions-together",
        "two partitions of one device are prepared and unprepared each by itself",
        "docs/spec/driver-sdk.md §1 (2)",
        _partitions_together,
        _PARTITIONS,
    ),
    PluginCheck(
        "share-ids",
        "answers carry the share IDs of the allocation",
        "docs/spec/driver-sdk.md §5.1",
        _share_ids,
        _SHARES,
    ),
    PluginCheck(
        "shares-apart",
        "one share is unprepared without the other",
        "docs/spec/driver-sdk.md §12",
        _shares_apart,
        _SHARES,
    ),
    PluginCheck(
        "metadata-valid", "metadata is valid and about the claim", "docs/spec/node.md §21", _metadata_valid, _METADATA
    ),
    PluginCheck(
        "metadata-again",
        "metadata that was lost is written again by prepare",
        "docs/spec/driver-sdk.md §9",
        _metadata_restored,
        _METADATA,
    ),
    PluginCheck(
        "metadata-removed", "metadata goes with its claim", "docs/spec/driver-sdk.md §5.3", _metadata_removed, _METADATA
    ),
)
"""By level: partitions, shares, metadata."""
