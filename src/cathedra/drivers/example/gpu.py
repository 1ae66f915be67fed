"""Simulated GPUs: whole ones, or ones that can be cut into equal parts, or ones that many claims have shares of.

Devices, parameters and environment follow the reference example driver of the Kubernetes project; its manifests work
here, and so do those of the DRA tutorials when name, memory and attributes are set as they expect
(docs/spec/driver-sdk.md §17).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cathedra.api.quantity import Quantity
from cathedra.api.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from cathedra.driver import Device, DeviceStatus, Pool, Version
from cathedra.driver.device import AttributeValue
from cathedra.driver.parameters import ConfigModels
from cathedra.drivers.example.gpu_config import API_VERSION, KIND, GpuConfig
from cathedra.drivers.example.profile import PrepareContext, Site, device_uuid, variable_name

__all__ = ["GpuOptions", "GpuProfile", "gpu_attributes", "gpu_environment", "gpu_status"]

PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
GPUS_PER_ROOT: Final = 4
CONFIGS: Final = {(API_VERSION, KIND): GpuConfig}
_STEPS: Final = {"memory": "1Gi", "compute": "1"}
"""What a share is at least, and a multiple of."""
_TOLD: Final = ("uuid", "model", "driverVersion")


@dataclass(frozen=True, slots=True)
class GpuOptions:
    """What the simulated GPUs of a node look like."""

    count: int = 8
    """GPUs on each node."""
    partitions: int = 0
    """Equal parts into which each GPU can be cut; 0: it cannot."""
    shared: bool = False
    """Whether many claims may have a share of a device each."""
    memory: str = "80Gi"
    compute: str = "100"
    model: str = "LATEST-GPU-MODEL"
    driver_version: str = "1.0.0"
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    """Attributes that replace or join those above."""


class GpuProfile:
    """N GPUs with the same model, each with its own index, UUID and place on the PCI bus.

    Where they can be cut, each is offered as ``gpu-0-partition-0``, ``gpu-0-partition-1``, … and ``gpu-0-full``: what
    is taken in one form is missing in the others, because all consume the same counters.
    """

    family: str = "gpu"
    configs: ConfigModels = CONFIGS
    spells_own_domain: bool = False

    def __init__(self, options: GpuOptions | None = None) -> None:
        self.options = options or GpuOptions()

    def pool(self, site: Site) -> Pool:
        """The GPUs of the node, with a set of counters for each that can be cut."""
        amounts = self._amounts(1)
        sets = range(self.options.count if self.options.partitions else 0)
        devices = tuple(device for index in range(self.options.count) for device in self._forms_of(site, index))
        return Pool(devices=devices, counters={_counter_set(index): amounts for index in sets})

    def environment(self, context: PrepareContext) -> Mapping[str, str]:
        """Which device it is, how it is shared, and how large the share is."""
        return gpu_environment(context)

    def status(self, context: PrepareContext) -> DeviceStatus | None:
        """UUID, model and driver version."""
        return gpu_status(context)

    def _forms_of(self, site: Site, index: int) -> Iterator[Device]:
        whole, parts = gpu_attributes(site, index, self.options), self.options.partitions
        if not parts:
            yield self._device(f"gpu-{index}", whole, self._amounts(1))
            return
        for number in range(parts):
            attributes = {**whole, "type": "partition", "partitionable": True, "partition": number}
            yield self._device(f"gpu-{index}-partition-{number}", attributes, self._amounts(parts), index)
        yield self._device(f"gpu-{index}-full", {**whole, "partitionable": True, "full": True}, self._amounts(1), index)

    def _device(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue],
        amounts: Mapping[str, Quantity],
        part_of: int | None = None,
    ) -> Device:
        shared = self.options.shared
        return Device(
            name,
            attributes=attributes,
            capacity={key: _in_shares(key, amount) for key, amount in amounts.items()} if shared else amounts,
            multiple_allocations=shared,
            consumes={} if part_of is None else {_counter_set(part_of): amounts},
        )

    def _amounts(self, parts: int) -> dict[str, Quantity]:
        whole = {"memory": Quantity(self.options.memory), "compute": Quantity(self.options.compute)}
        if parts == 1:
            return whole
        return {name: Quantity.of_value(amount.value() // parts, amount.format) for name, amount in whole.items()}


def gpu_attributes(site: Site, index: int, options: GpuOptions) -> dict[str, AttributeValue]:
    """What the GPU of that number says of itself."""
    return {
        "type": "gpu",
        "index": index,
        "uuid": device_uuid(site, "gpu", index),
        "model": options.model,
        "driverVersion": Version(options.driver_version),
        PCI_BUS_ID: f"0000:{0x10 + index:02x}:00.0",
        PCIE_ROOT: f"pci0000:{0x10 + index // GPUS_PER_ROOT * GPUS_PER_ROOT:02x}",
        **options.attributes,
    }


def gpu_environment(context: PrepareContext) -> dict[str, str]:
    """The variables of a container that gets a GPU or a part of one."""
    allocation = context.allocation
    prefix = f"GPU_DEVICE_{variable_name(allocation.device).removeprefix('GPU_')}"
    variables = {prefix: allocation.device, **allocation.config(GpuConfig).environment(prefix)}
    if allocation.share_id is not None:
        for name in ("memory", "compute"):
            if name in allocation.consumed:
                variables[f"{prefix}_{name.upper()}"] = str(allocation.consumed[name])
    return variables


def gpu_status(context: PrepareContext) -> DeviceStatus:
    """What the status of a claim tells of a GPU: it stays there when the device leaves its slice."""
    attributes = context.device.attributes
    return DeviceStatus(data={name: attributes[name] for name in _TOLD if name in attributes})


def _in_shares(name: str, amount: Quantity) -> DeviceCapacity:
    step = Quantity(_STEPS[name])
    allowed = CapacityRequestPolicyRange(min=step, max=amount, step=step)
    return DeviceCapacity(value=amount, request_policy=CapacityRequestPolicy(default=amount, valid_range=allowed))


def _counter_set(index: int) -> str:
    return f"gpu-{index}-counters"
