"""The handshake: docs/spec/protocols.md §3."""

from __future__ import annotations

import re
from typing import Final

from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.errors import CheckFailed
from cathedra.drivercheck.plugin import ask, tell
from cathedra.node.plugins.client import PluginCallError
from cathedra.node.plugins.grpcclient import DRA_SERVICES, DRIVER_TYPE, HEALTH_SERVICES

_SOURCE: Final = "docs/spec/protocols.md §3"
_LONGEST_NAME: Final = 63
_LONGEST_PATH: Final = 107
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


async def _describes_itself(bench: Bench) -> None:
    info = bench.plugin.info
    if info.type != DRIVER_TYPE:
        raise CheckFailed(f"its type is {info.type!r}, a DRA driver's is {DRIVER_TYPE!r}")
    if len(info.name) > _LONGEST_NAME or not _SUBDOMAIN.fullmatch(info.name):
        raise CheckFailed(f"its name {info.name!r} is no DNS subdomain of at most {_LONGEST_NAME} characters")
    if info.endpoint and not info.endpoint.startswith("/"):
        raise CheckFailed(f"its endpoint {info.endpoint!r} is no absolute path")
    if len(info.endpoint.encode()) > _LONGEST_PATH:
        raise CheckFailed(f"its endpoint has {len(info.endpoint.encode())} bytes, a socket at most {_LONGEST_PATH}")


async def _offers_known_services(bench: Bench) -> None:
    known = (*DRA_SERVICES, *HEALTH_SERVICES)
    odd = [name for name in bench.plugin.info.services if name not in known]
    if not bench.plugin.versions:
        bench.plugin.client()
    if odd:
        raise CheckFailed(f"it offers {', '.join(odd)}; kubelets know {', '.join(known)}")


async def _serves_what_it_offers(bench: Bench) -> None:
    """Check that a call without claims works in each version, as probes use it (docs/spec/driver-sdk.md §5.2)."""
    bench.plugin.client()
    for version in bench.plugin.versions:
        try:
            prepared = await bench.plugin.prepare([], version)
            unprepared = await bench.plugin.unprepare([], version)
        except PluginCallError as error:
            raise CheckFailed(f"{version}: {error}") from error
        if prepared or unprepared:
            raise CheckFailed(f"{version}: an answer for claims that were not requested")


async def _answers_again(bench: Bench) -> None:
    """After a restart of the kubelet, the driver registers again on every socket."""
    info = bench.plugin.info
    try:
        await tell(info.socket, registered=True)
        again = await ask(info.socket)
        await tell(info.socket, registered=True)
    except PluginCallError as error:
        raise CheckFailed(f"the second time: {error}") from error
    if again != info:
        raise CheckFailed("the second answer to GetInfo differs from the first")


CHECKS: Final = (
    PluginCheck("describes-itself", "type, name and endpoint are what a kubelet accepts", _SOURCE, _describes_itself),
    PluginCheck(
        "known-services", "it offers services that kubelets know", "docs/spec/protocols.md §2", _offers_known_services
    ),
    PluginCheck(
        "serves-what-it-offers",
        "every offered version answers a call without claims, with nothing",
        "docs/spec/driver-sdk.md §5.2",
        _serves_what_it_offers,
    ),
    PluginCheck(
        "registers-again", "a kubelet that starts anew can register it again", "docs/spec/node.md §2.2", _answers_again
    ),
)
"""In the order of the handshake."""
