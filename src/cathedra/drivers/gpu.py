"""Simulated GPUs: the example driver ``gpu.example.com``.

It publishes GPUs that do not exist and prepares them by setting environment variables, so the whole way of a claim can
be seen on any machine. Devices, parameters and environment follow the reference example driver of the Kubernetes
project; its manifests work here, and so do those of the DRA tutorials when name, memory and attributes are set as they
expect (docs/spec/driver-sdk.md §17).

    python -m cathedra.drivers.gpu          # as a DaemonSet's container would run it
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cathedra.api.quantity import Quantity
from cathedra.devicemetadata.stream import KNOWN_VERSIONS
from cathedra.driver import Allocation, Claim, Device, DeviceStatus, Driver, Edits, Prepared, Version, run
from cathedra.driver.device import AttributeValue
from cathedra.drivers.gpu_config import API_VERSION, KIND, GpuConfig

__all__ = ["GpuDriver", "GpuOptions"]

PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
GPUS_PER_ROOT = 4

_UUIDS = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")


@dataclass(frozen=True, slots=True)
class GpuOptions:
    """What the simulated GPUs of a node look like."""

    name: str = "gpu.example.com"
    """The driver's name."""
    count: int = 8
    """GPUs on each node."""
    memory: str = "80Gi"
    compute: str = "100"
    model: str = "LATEST-GPU-MODEL"
    driver_version: str = "1.0.0"
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    """Attributes that replace or join those above."""
    publish_status: bool = False
    """Whether uuid, model and driver version are written into the status of claims."""

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> GpuOptions:
        """The options of a container: ``DRIVER_NAME``, ``NUM_DEVICES``, ``GPU_MEMORY``, ``GPU_MODEL``."""
        default = GpuOptions()
        return GpuOptions(
            name=environment.get("DRIVER_NAME", default.name),
            count=int(environment.get("NUM_DEVICES", default.count)),
            memory=environment.get("GPU_MEMORY", default.memory),
            model=environment.get("GPU_MODEL", default.model),
        )


class GpuDriver(Driver):
    """N GPUs with the same model, each with its own index, UUID and place on the PCI bus."""

    configs = {(API_VERSION, KIND): GpuConfig}
    metadata_versions = KNOWN_VERSIONS
    cdi_class = "gpu"

    def __init__(self, options: GpuOptions | None = None) -> None:
        self.options = options or GpuOptions()
        self.name = self.options.name
        self.cdi_vendor = f"k8s.{self.name}"

    def devices(self) -> list[Device]:
        """The GPUs ``gpu-0``, ``gpu-1``, …: equal for one node at every start."""
        capacity = {"memory": Quantity(self.options.memory), "compute": Quantity(self.options.compute)}
        return [
            Device(f"gpu-{i}", attributes=self.attributes_of(i), capacity=dict(capacity))
            for i in range(self.options.count)
        ]

    def common_edits(self) -> Edits:
        """Every container sees on which node it is and who gave it its devices."""
        return Edits(env={"KUBERNETES_NODE_NAME": self.node_name, "DRA_RESOURCE_DRIVER_NAME": self.name})

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """Nothing has to be done to a GPU that does not exist; its container gets the variables that tell of it."""
        for allocation in claim.allocations:
            attributes = self.attributes_of(_index(allocation.device))
            status = None
            if self.options.publish_status:
                status = DeviceStatus(data={name: attributes[name] for name in ("uuid", "model", "driverVersion")})
            yield allocation.prepared(
                Edits(env=self._environment(claim, allocation)), metadata=attributes, status=status
            )

    def attributes_of(self, index: int) -> dict[str, AttributeValue]:
        """What the GPU of that number says of itself."""
        return {
            "type": "gpu",
            "index": index,
            "uuid": f"gpu-{uuid.uuid5(_UUIDS, f'{self.name}/{self.node_name}/{index}')}",
            "model": self.options.model,
            "driverVersion": Version(self.options.driver_version),
            PCI_BUS_ID: f"0000:{0x10 + index:02x}:00.0",
            PCIE_ROOT: f"pci0000:{0x10 + index // GPUS_PER_ROOT * GPUS_PER_ROOT:02x}",
            **self.options.attributes,
        }

    def _environment(self, claim: Claim, allocation: Allocation) -> dict[str, str]:
        identity = _index(allocation.device)
        prefix = f"GPU_DEVICE_{identity}"
        variables = {
            prefix: allocation.device,
            f"GPU_DEVICE_{allocation.device.upper().replace('-', '_')}_RESOURCE_CLAIM": claim.uid,
            "DRA_ADMIN_ACCESS": "true" if allocation.admin else "false",
            **allocation.config(GpuConfig).environment(prefix),
        }
        if allocation.share_id is not None:
            for name in ("memory", "compute"):
                if name in allocation.consumed:
                    variables[f"{prefix}_{name.upper()}"] = str(allocation.consumed[name])
        return variables


def _index(device: str) -> int:
    return int(device.removeprefix("gpu-"))


if __name__ == "__main__":
    run(GpuDriver(GpuOptions.from_environment(os.environ)))
