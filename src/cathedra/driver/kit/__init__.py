"""A bench for drivers: try one without a cluster, and find out whether it keeps the contract.

    async with Kit(Lamps) as kit:
        claim = await kit.claim("lamp-0")
        devices = await kit.prepare(claim)
        assert kit.edits(devices).env == ("LAMP=lamp-0",)

`bench` is the `Kit`: a driver at work against an API server in memory (`memoryapi`). `conformance` has what any driver
must do, as checks that each begin with a fresh kit; ``python -m cathedra.driver.kit my_module:Lamps`` runs them all.
"""

from __future__ import annotations

from cathedra.driver.kit.bench import Kit, KitError
from cathedra.driver.kit.conformance import CHECKS, Check, CheckFailed, CheckResult, CheckSkipped, check_driver

__all__ = ["CHECKS", "Check", "CheckFailed", "CheckResult", "CheckSkipped", "Kit", "KitError", "check_driver"]
