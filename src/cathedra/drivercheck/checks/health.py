"""Health reports: docs/spec/driver-sdk.md §8, docs/spec/protocols.md §7."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped
from cathedra.node.plugins.client import PluginCallError, ReportedHealth

_REPORT_SECONDS: Final = 30.0
"""After so long without a report a kubelet takes every device for unknown."""
_KUBELETS: Final = 3
_GRACE_SECONDS: Final = 30.0
"""A pod's default grace period: what still runs then is killed."""
_LEVEL: Final = "health"


async def _first_report(bench: Bench) -> tuple[ReportedHealth, ...]:
    """Open a stream, and close it after the first report."""
    if not bench.plugin.offers_health:
        raise CheckSkipped("it offers no health service")
    async with aclosing(bench.plugin.health()) as stream:
        try:
            async with asyncio.timeout(_REPORT_SECONDS):
                return await anext(stream)
        except TimeoutError as error:
            raise CheckFailed(f"no report within {_REPORT_SECONDS:g} s") from error
        except StopAsyncIteration as error:
            raise CheckFailed("the stream ended without a report") from error
        except PluginCallError as error:
            if error.code == "Unimplemented":
                raise CheckFailed("it offers a health service that is not implemented") from error
            raise CheckFailed(str(error)) from error


async def _reports(bench: Bench) -> None:
    report = await _first_report(bench)
    known = {(one.spec.pool.name, device.name) for one in await bench.claims.slices() for device in one.spec.devices}
    odd = sorted("/".join((one.pool, one.device)) for one in report if (one.pool, one.device) not in known)
    if odd:
        raise CheckFailed(f"it reports on devices that it has not published: {', '.join(odd)}")


async def _again(bench: Bench) -> None:
    """Open the health stream several times: a kubelet that starts anew closes its stream and opens another."""
    for _ in range(_KUBELETS):
        await _first_report(bench)


async def _ends(bench: Bench) -> None:
    """Stop the driver while a health stream is open.

    A graceful stop of gRPC waits for open streams: a stream that never ends keeps the pod until it is killed.
    """
    bench.require_program()
    if not bench.plugin.offers_health:
        raise CheckSkipped("it offers no health service")
    driver, instance = bench.plugin.info.name, bench.instance
    async with aclosing(bench.plugin.health()) as stream:
        await anext(stream)
        try:
            await bench.end_within(instance, _GRACE_SECONDS)
        except TimeoutError as error:
            raise CheckFailed(
                f"{_GRACE_SECONDS:g} s after SIGTERM it still runs, because a health stream is open"
            ) from error
        finally:
            await bench.connect(driver)


CHECKS: Final = (
    PluginCheck(
        "health",
        "health reports come in time, about published devices",
        "docs/spec/driver-sdk.md §8",
        _reports,
        _LEVEL,
    ),
    PluginCheck(
        "health-again", "a stream that was closed can be opened again", "docs/spec/protocols.md §7", _again, _LEVEL
    ),
    PluginCheck("health-ends", "at SIGTERM it ends its health streams", "docs/spec/driver-sdk.md §3", _ends, _LEVEL),
)
"""Checks of drivers that offer the health service."""
