"""A DRA driver in a few lines: four lamps that a pod can claim, each with a colour.

    NODE_NAME=node-0 KUBECONFIG=... python examples/drivers/minimal.py

It publishes the lamps, prepares claims on them, survives restarts, and works with any node agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cathedra.driver import Claim, Device, Driver, Edits, Prepared, run


@dataclass
class LampConfig:
    """Parameters that a claim may carry: ``{apiVersion: lamp.example.com/v1, kind: LampConfig, colour: red}``."""

    colour: str = "white"


class Lamps(Driver):
    """Four lamps on every node."""

    name = "lamp.example.com"
    configs = {("lamp.example.com/v1", "LampConfig"): LampConfig}

    def devices(self) -> list[Device]:
        """What a cluster can claim, in order of preference."""
        return [Device(f"lamp-{i}", attributes={"index": i}, capacity={"watt": 5 * (i + 1)}) for i in range(4)]

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """What changes in the container of a pod that has the lamps of ``claim``."""
        for lamp in claim.allocations:
            colour = lamp.config(LampConfig).colour
            variable = lamp.device.upper().replace("-", "_")
            yield lamp.prepared(Edits(env={variable: colour}), metadata={"colour": colour})


if __name__ == "__main__":
    run(Lamps())
