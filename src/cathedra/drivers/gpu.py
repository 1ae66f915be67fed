"""Simulated GPUs: the example driver ``gpu.example.com`` in its plain profile.

python -m cathedra.drivers.gpu          # as a DaemonSet's container would run it
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from cathedra.driver import run
from cathedra.drivers.example.driver import DriverOptions, ExampleDriver
from cathedra.drivers.example.gpu import GpuOptions, GpuProfile


class GpuDriver(ExampleDriver):
    """The example driver with GPUs."""

    def __init__(self, gpus: GpuOptions | None = None, options: DriverOptions | None = None) -> None:
        super().__init__(GpuProfile(gpus), options)

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> GpuDriver:
        """Return the driver of a container: ``DRIVER_NAME``, ``NUM_DEVICES``, ``GPU_PARTITIONS`` and so on."""
        default = GpuOptions()
        gpus = GpuOptions(
            count=int(environment.get("NUM_DEVICES", default.count)),
            partitions=int(environment.get("GPU_PARTITIONS", default.partitions)),
            shared=environment.get("GPU_ALLOW_MULTIPLE_ALLOCATIONS", "false") == "true",
            memory=environment.get("GPU_MEMORY", default.memory),
            model=environment.get("GPU_MODEL", default.model),
        )
        return GpuDriver(gpus, DriverOptions(name=environment.get("DRIVER_NAME", "")))


if __name__ == "__main__":
    run(GpuDriver.from_environment(os.environ))
