"""Simulated GPUs: the example driver ``gpu.example.com``.

It publishes GPUs that do not exist and prepares them by setting environment variables, so the whole way of a claim can
be seen on any machine. Devices, parameters and environment follow the reference example driver of the Kubernetes
project; its manifests work here, and so do those of the DRA tutorials when name, memory and attributes are set as they
expect (docs/spec/driver-sdk.md §17).

    python -m cathedra.drivers.gpu          # as a DaemonSet's container would run it
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cathedra.api.quantity import Quantity
from cathedra.devicemetadata.stream import KNOWN_VERSIONS
from cathedra.driver import Claim, ClaimedDevice, Device, DeviceStatus, Driver, Edits, Pool, Prepared, Version, run
from cathedra.driver.device import AttributeValue
from cathedra.drivers.gpu_config import API_VERSION, KIND, GpuConfig

__all__ = ["GpuDriver", "GpuOptions"]

PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
GPUS_PER_ROOT = 4
_NAME = re.compile(r"gpu-(?P<index>\d+)(?:-full|-partition-(?P<partition>\d+))?", re.ASCII)

_UUIDS = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")


@dataclass(frozen=True, slots=True)
class GpuOptions:
    """What the simulated GPUs of a node look like."""

    name: str = "gpu.example.com"
    """The driver's name."""
    count: int = 8
    """GPUs on each node."""
    partitions: int = 0
    """Equal parts into which each GPU can be cut; 0: it cannot."""
    memory: str = "80Gi"
    compute: str = "100"
    model: str = "LATEST-GPU-MODEL"
    driver_version: str = "1.0.0"
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    """Attributes that replace or join those above."""
    metadata_versions: Sequence[str] = KNOWN_VERSIONS
    """The versions in which containers find the metadata of their devices, preferred ones first."""
    publish_status: bool = False
    """Whether uuid, model and driver version are written into the status of claims."""

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> GpuOptions:
        """The options of a container: ``DRIVER_NAME``, ``NUM_DEVICES``, ``GPU_PARTITIONS`` and so on."""
        default = GpuOptions()
        return GpuOptions(
            name=environment.get("DRIVER_NAME", default.name),
            count=int(environment.get("NUM_DEVICES", default.count)),
            partitions=int(environment.get("GPU_PARTITIONS", default.partitions)),
            memory=environment.get("GPU_MEMORY", default.memory),
            model=environment.get("GPU_MODEL", default.model),
        )


class GpuDriver(Driver):
    """N GPUs with the same model, each with its own index, UUID and place on the PCI bus."""

    configs = {(API_VERSION, KIND): GpuConfig}
    cdi_class = "gpu"

    def __init__(self, options: GpuOptions | None = None) -> None:
        self.options = options or GpuOptions()
        self.name = self.options.name
        self.cdi_vendor = f"k8s.{self.name}"
        self.metadata_versions = self.options.metadata_versions

    def devices(self) -> list[Device]:
        """The GPUs ``gpu-0``, ``gpu-1``, …: equal for one node at every start.

        Where they can be cut, each is offered as ``gpu-0-partition-0``, ``gpu-0-partition-1``, … and ``gpu-0-full``:
        what is taken in one form is missing in the others, because all consume the same counters.
        """
        return [device for index in range(self.options.count) for device in self._forms_of(index)]

    def resources(self) -> Pool:
        """The pool of this node, with a set of counters for each GPU that can be cut."""
        amounts = self._amounts(1)
        sets = range(self.options.count if self.options.partitions else 0)
        return Pool(devices=self.devices(), counters={_counter_set(index): amounts for index in sets})

    def _forms_of(self, index: int) -> Iterator[Device]:
        parts = self.options.partitions
        if not parts:
            yield Device(f"gpu-{index}", attributes=self.attributes_of(index), capacity=self._amounts(1))
            return
        for number in range(parts):
            yield self._form(f"gpu-{index}-partition-{number}", self._amounts(parts))
        yield self._form(f"gpu-{index}-full", self._amounts(1))

    def _form(self, name: str, amounts: Mapping[str, Quantity]) -> Device:
        index, _ = _place(name)
        return Device(
            name, attributes=self._attributes(name), capacity=amounts, consumes={_counter_set(index): amounts}
        )

    def _amounts(self, parts: int) -> dict[str, Quantity]:
        whole = {"memory": Quantity(self.options.memory), "compute": Quantity(self.options.compute)}
        if parts == 1:
            return whole
        return {name: Quantity.of_value(amount.value() // parts, amount.format) for name, amount in whole.items()}

    def common_edits(self) -> Edits:
        """Every container sees on which node it is and who gave it its devices."""
        return Edits(env={"KUBERNETES_NODE_NAME": self.node_name, "DRA_RESOURCE_DRIVER_NAME": self.name})

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """Nothing has to be done to a GPU that does not exist; its container gets the variables that tell of it."""
        for allocation in claim.allocations:
            attributes = self._attributes(allocation.device)
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

    def _attributes(self, name: str) -> dict[str, AttributeValue]:
        """What a device says of itself: its GPU's attributes, and which part of it the device is."""
        index, partition = _place(name)
        attributes = self.attributes_of(index)
        if not self.options.partitions:
            return attributes
        if partition is None:
            return {**attributes, "partitionable": True, "full": True}
        return {**attributes, "type": "partition", "partitionable": True, "partition": partition}

    def _environment(self, claim: Claim, allocation: ClaimedDevice) -> dict[str, str]:
        upper = allocation.device.upper().replace("-", "_")
        prefix = f"GPU_DEVICE_{upper.removeprefix('GPU_')}"
        variables = {
            prefix: allocation.device,
            f"GPU_DEVICE_{upper}_RESOURCE_CLAIM": claim.uid,
            "DRA_ADMIN_ACCESS": "true" if allocation.admin else "false",
            **allocation.config(GpuConfig).environment(prefix),
        }
        if allocation.share_id is not None:
            for name in ("memory", "compute"):
                if name in allocation.consumed:
                    variables[f"{prefix}_{name.upper()}"] = str(allocation.consumed[name])
        return variables


def _place(device: str) -> tuple[int, int | None]:
    """The number of a device's GPU and, if it is one, that of the partition."""
    name = _NAME.fullmatch(device)
    if name is None:
        raise ValueError(f"there is no device {device!r}")
    partition = name["partition"]
    return int(name["index"]), None if partition is None else int(partition)


def _counter_set(index: int) -> str:
    return f"gpu-{index}-counters"


if __name__ == "__main__":
    run(GpuDriver(GpuOptions.from_environment(os.environ)))
