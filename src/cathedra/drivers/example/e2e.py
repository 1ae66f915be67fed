"""The devices of the driver with which Kubernetes tests its kubelet: parameters become variables.

Every parameter ``a: b`` of a claim is ``user_a=b`` in the container, and of a class ``admin_a=b``; and each container
sees for which requests of which claims it has devices. Calls are made to fail or hang by orders
(docs/spec/driver-sdk.md §18).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from cathedra.driver import Device, DeviceStatus, Pool
from cathedra.driver.claim import ConfigModels
from cathedra.drivers.example.profile import PrepareContext, Site

_NO_WORD: Final = re.compile(r"[^a-zA-Z0-9]")
_PREFIXES: Final = {"FromClaim": "user", "FromClass": "admin"}


class E2EProfile:
    """N devices of which nothing is known but their names."""

    family: str = "test"
    configs: ConfigModels = {}
    spells_own_domain: bool = False

    def __init__(self, count: int = 8) -> None:
        self.count = count

    def pool(self, site: Site) -> Pool:
        """Return the devices ``device-00``, ``device-01``, …"""
        return Pool(devices=tuple(Device(f"device-{index:02}") for index in range(self.count)))

    def environment(self, context: PrepareContext) -> Mapping[str, str]:
        """Return the parameters for this device, and ``claim_CLAIM_REQUEST=true``."""
        allocation = context.allocation
        variables = {
            f"{_PREFIXES[source]}_{key}": str(value)
            for source, values in zip(allocation.sources, allocation.parameters, strict=True)
            for key, value in values.items()
        }
        return {**variables, _NO_WORD.sub("_", f"claim_{context.claim.name}_{allocation.base_request}"): "true"}

    def status(self, context: PrepareContext) -> DeviceStatus | None:
        """Return None: the test driver reports no status."""
        return None
