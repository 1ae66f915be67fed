"""Test bench for drivers: run one without a cluster, and check that it keeps the contract.

    async with Kit(Lamps) as kit:
        claim = await kit.claim("lamp-0")
        devices = await kit.prepare(claim)
        assert kit.edits(devices).env == ("LAMP=lamp-0",)

`bench` is the `Kit`: a running driver with an API server in memory. `conformance` checks what every
driver must do, each check with a fresh kit; ``python -m cathedra.driver.kit my_module:Lamps`` runs all of them.
"""

from __future__ import annotations

from cathedra.driver.kit.bench import Kit, KitError
from cathedra.driver.kit.conformance import CHECKS, Check, CheckFailed, CheckResult, CheckSkipped, check_driver

__all__ = ["CHECKS", "Check", "CheckFailed", "CheckResult", "CheckSkipped", "Kit", "KitError", "check_driver"]
