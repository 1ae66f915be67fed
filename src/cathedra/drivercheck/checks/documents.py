"""CDI documents: there when prepare returns, there again when they were lost, gone in the end."""

from __future__ import annotations

from typing import Final

from cathedra.cdi.catalogue import load
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed


async def _resolvable(bench: Bench) -> None:
    bench.check_names(await bench.prepare(await bench.claims.allocate()))


async def _valid(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    used = {name for device in await bench.prepare(claim) for name in device.cdi_device_ids}
    catalogue = load(bench.cdi_directories)
    vendors = {name.partition("/")[0] for name in used} | {bench.plugin.info.name}
    mine = [path for path in catalogue.faults if any(vendor in path.read_text(errors="replace") for vendor in vendors)]
    if mine:
        raise CheckFailed("; ".join(catalogue.faults[mine[0]]))


async def _again(bench: Bench) -> None:
    """Prepare a claim again without its documents: a checkpoint survives a reboot, /var/run does not."""
    claim = await bench.claims.allocate()
    bench.check_names(await bench.prepare(claim))
    for path in bench.documents_of(claim):
        path.unlink()
    bench.check_names(await bench.prepare(claim))


async def _removed(bench: Bench) -> None:
    claim = await bench.claims.allocate()
    await bench.prepare(claim)
    await bench.unprepare(claim)
    if left := bench.documents_of(claim):
        raise CheckFailed(f"documents of the claim are still there: {', '.join(path.name for path in left)}")


CHECKS: Final = (
    PluginCheck(
        "cdi-resolvable",
        "every CDI name is defined when prepare returns",
        "docs/spec/driver-sdk.md §1 (6)",
        _resolvable,
    ),
    PluginCheck("cdi-valid", "its documents keep the rules of CDI", "docs/spec/node.md §19.1", _valid),
    PluginCheck(
        "cdi-again", "documents that were lost are written again by prepare", "docs/spec/driver-sdk.md §1 (1)", _again
    ),
    PluginCheck("cdi-removed", "documents of a claim go with it", "docs/spec/driver-sdk.md §1", _removed),
)
"""In the order of a claim's life."""
