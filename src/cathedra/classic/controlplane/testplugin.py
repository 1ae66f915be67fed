"""The node plugin of the test driver as it was in 1.31: configuration of claims and classes becomes environment.

``a: b`` in the claim's parameters becomes ``user_a=b``, in the class's ``admin_a=b``. It is a driver of today's kit
that speaks to kubelets of that release, and publishes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from cathedra.api.struct import RawJSON, decode
from cathedra.driver.claim import Claim, Edits, Prepared
from cathedra.driver.device import Pool
from cathedra.driver.driver import Driver
from cathedra.driver.errors import DriverError
from cathedra.driver.serving.registration import DRA_OF_131

__all__ = ["ControlPlaneTestPlugin", "InvalidParameters"]

_NO_NAME = re.compile(r"[^a-zA-Z0-9]")


class InvalidParameters(DriverError):
    """Parameters are no object with texts."""


class ControlPlaneTestPlugin(Driver):
    """Turns parameters into variables."""

    services = (DRA_OF_131,)
    exclusive = False
    cdi_class = "test"

    def __init__(self, name: str) -> None:
        self.name = name

    def resources(self) -> Iterable[Pool]:
        """Nothing: what the controller allocates is in no slice."""
        return ()

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """The variables of each device, with one that says which claim and request it is for."""
        allocation = claim.raw.status.allocation
        entries = allocation.devices.config if allocation is not None else ()
        for device in claim.allocations:
            env: dict[str, str] = {}
            for entry in entries:
                mine = entry.opaque is not None and entry.opaque.driver == self.name
                if entry.opaque is not None and mine and device.request in (entry.requests or (device.request,)):
                    prefix = "admin" if entry.source == "FromClass" else "user"
                    env |= _variables(prefix, entry.opaque.parameters)
            marker = _NO_NAME.sub("_", f"claim_{claim.name}_{device.request}")
            yield device.prepared(Edits(env={**env, marker: "true"}))


def _variables(prefix: str, parameters: RawJSON | None) -> dict[str, str]:
    raw = parameters.data if parameters is not None else b"{}"
    try:
        values = decode(dict[str, str], raw)
    except msgspec.MsgspecError as error:
        raise InvalidParameters(f"{prefix} parameters {raw.decode()!r}: {error}") from error
    return {f"{prefix}_{key.lower()}": value for key, value in values.items()}
