"""Health reports: docs/spec/driver-sdk.md §8, docs/spec/protocols.md §7."""

from __future__ import annotations

import asyncio
from typing import Final

from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped
from cathedra.node.plugins.client import PluginCallError

__all__ = ["CHECKS"]

_REPORT_SECONDS: Final = 30.0
"""After so long without a report a kubelet takes every device for unknown."""


async def _reports(bench: Bench) -> None:
    if not bench.plugin.offers_health:
        raise CheckSkipped("it offers no health service")
    known = {(one.spec.pool.name, device.name) for one in await bench.claims.slices() for device in one.spec.devices}
    stream = bench.plugin.health()
    try:
        async with asyncio.timeout(_REPORT_SECONDS):
            report = await anext(stream)
    except TimeoutError as error:
        raise CheckFailed(f"no report within {_REPORT_SECONDS:g} s") from error
    except StopAsyncIteration as error:
        raise CheckFailed("the stream ended without a report") from error
    except PluginCallError as error:
        if error.code == "Unimplemented":
            raise CheckFailed("it offers a health service that is not implemented") from error
        raise CheckFailed(str(error)) from error
    odd = sorted("/".join((one.pool, one.device)) for one in report if (one.pool, one.device) not in known)
    if odd:
        raise CheckFailed(f"it reports on devices that it has not published: {', '.join(odd)}")


CHECKS: Final = (
    PluginCheck(
        "health", "health reports come in time, about published devices", "docs/spec/driver-sdk.md §8", _reports
    ),
)
"""One, where there is a service."""
