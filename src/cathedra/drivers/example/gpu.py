"""Simulated GPUs: whole, partitioned into equal parts, or shared by many claims.

Devices, parameters and environment follow the reference example driver of the Kubernetes project; its manifests work
here, and so do those of the DRA tutorials if name, memory and attributes are set as they expect
(docs/spec/driver-sdk.md §17). Claims and classes may configure sharing between containers, with the reference driver's
kind:

    apiVersion: gpu.resource.example.com/v1alpha1
    kind: GpuConfig
    sharing:
      strategy: TimeSlicing
      timeSlicingConfig:
        interval: Long
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

import msgspec

from cathedra.api.quantity import Quantity
from cathedra.api.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from cathedra.driver import Device, DeviceStatus, Pool, Version
from cathedra.driver.claim import ConfigModels
from cathedra.driver.device import AttributeValue
from cathedra.drivers.example.profile import PrepareContext, Site, device_uuid, variable_name

PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
GPUS_PER_ROOT: Final = 4


API_VERSION = "gpu.resource.example.com/v1alpha1"
KIND = "GpuConfig"


class TimeSlicing(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Settings of time slicing."""

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"


class SpacePartitioning(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Each container has a part of the GPU."""

    partition_count: int = 1


class Sharing(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One of two strategies, with its settings."""

    strategy: Literal["TimeSlicing", "SpacePartitioning"] = "TimeSlicing"
    time_slicing_config: TimeSlicing | None = None
    space_partitioning_config: SpacePartitioning | None = None

    def __post_init__(self) -> None:
        if self.time_slicing_config is not None and self.space_partitioning_config is not None:
            raise ValueError("only one of timeSlicingConfig and spacePartitioningConfig may be set")
        if self.strategy == "TimeSlicing" and self.space_partitioning_config is not None:
            raise ValueError("spacePartitioningConfig needs the strategy SpacePartitioning")
        if self.strategy == "SpacePartitioning" and self.time_slicing_config is not None:
            raise ValueError("timeSlicingConfig needs the strategy TimeSlicing")
        if self.space_partitioning_config is not None and self.space_partitioning_config.partition_count < 0:
            raise ValueError("partitionCount must not be negative")


class ExampleGpuConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The parameters as a whole. Without any, a GPU is shared by time slicing in the default interval."""

    sharing: Sharing = Sharing()

    def environment(self, prefix: str) -> dict[str, str]:
        """Return the variables of a container; ``prefix`` begins their names."""
        sharing = self.sharing
        variables: dict[str, str] = {f"{prefix}_SHARING_STRATEGY": sharing.strategy}
        if sharing.strategy == "TimeSlicing":
            variables[f"{prefix}_TIMESLICE_INTERVAL"] = (sharing.time_slicing_config or TimeSlicing()).interval
        else:
            partitions = (sharing.space_partitioning_config or SpacePartitioning()).partition_count
            variables[f"{prefix}_PARTITION_COUNT"] = str(partitions)
        return variables


CONFIGS: Final = {(API_VERSION, KIND): ExampleGpuConfig}
_STEPS: Final = {"memory": "1Gi", "compute": "1"}
"""Minimum of a share, and its step."""
_TOLD: Final = ("uuid", "model", "driverVersion")


class GpuOptions(msgspec.Struct, frozen=True):
    """Properties of the simulated GPUs of a node."""

    count: int = 8
    """GPUs on each node."""
    partitions: int = 0
    """Equal parts into which each GPU can be cut; 0: it cannot."""
    shared: bool = False
    """True if many claims may have a share of a device each."""
    memory: str = "80Gi"
    compute: str = "100"
    model: str = "LATEST-GPU-MODEL"
    driver_version: str = "1.0.0"
    attributes: Mapping[str, AttributeValue] = msgspec.field(default_factory=dict)
    """Attributes that replace or join those above."""


def equal_parts(site: Site, options: GpuOptions) -> Pool:
    """Return N GPUs with the same model, each with its own index, UUID and place on the PCI bus.

    Where they can be cut, each is offered as ``gpu-0-partition-0``, ``gpu-0-partition-1``, … and ``gpu-0-full``: what
    is taken in one form is missing in the others, because all consume the same counters.
    """
    sets = range(options.count if options.partitions else 0)
    return Pool(
        devices=tuple(device for index in range(options.count) for device in _forms_of(site, index, options)),
        counters={_counter_set(index): _amounts(options, 1) for index in sets},
    )


Layout = Callable[[Site, GpuOptions], Pool]
"""The devices of a node that has such GPUs."""


class GpuProfile:
    """GPUs of one model; ``layout`` selects the forms in which they are published."""

    family: str = "gpu"
    configs: ConfigModels = CONFIGS
    spells_own_domain: bool = False

    def __init__(self, options: GpuOptions | None = None, layout: Layout = equal_parts) -> None:
        self.options = options or GpuOptions()
        self._layout = layout

    def pool(self, site: Site) -> Pool:
        """Return the GPUs of the node, with a set of counters for each that can be cut."""
        return self._layout(site, self.options)

    def environment(self, context: PrepareContext) -> Mapping[str, str]:
        """Return device, sharing and size of the share as variables."""
        allocation = context.allocation
        prefix = f"GPU_DEVICE_{variable_name(allocation.device).removeprefix('GPU_')}"
        variables = {prefix: allocation.device, **allocation.config(ExampleGpuConfig).environment(prefix)}
        if allocation.share_id is not None:
            for name in ("memory", "compute"):
                if name in allocation.consumed:
                    variables[f"{prefix}_{name.upper()}"] = str(allocation.consumed[name])
        return variables

    def status(self, context: PrepareContext) -> DeviceStatus | None:
        """Return UUID, model and driver version: they stay there when the device leaves its slice."""
        attributes = context.device.attributes
        return DeviceStatus(data={name: attributes[name] for name in _TOLD if name in attributes})


def gpu_attributes(site: Site, index: int, options: GpuOptions) -> dict[str, AttributeValue]:
    """Return the attributes of the GPU with that number."""
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


def _forms_of(site: Site, index: int, options: GpuOptions) -> Iterator[Device]:
    whole, parts = gpu_attributes(site, index, options), options.partitions
    if not parts:
        yield _device(f"gpu-{index}", whole, _amounts(options, 1), shared=options.shared)
        return
    counters = _counter_set(index)
    for number in range(parts):
        attributes = {**whole, "type": "partition", "partitionable": True, "partition": number}
        name, amounts = f"gpu-{index}-partition-{number}", _amounts(options, parts)
        yield _device(name, attributes, amounts, counters, shared=options.shared)
    full = {**whole, "partitionable": True, "full": True}
    yield _device(f"gpu-{index}-full", full, _amounts(options, 1), counters, shared=options.shared)


def _device(
    name: str,
    attributes: Mapping[str, AttributeValue],
    amounts: Mapping[str, Quantity],
    counters: str = "",
    *,
    shared: bool,
) -> Device:
    return Device(
        name,
        attributes=attributes,
        capacity={key: _in_shares(key, amount) for key, amount in amounts.items()} if shared else amounts,
        multiple_allocations=shared,
        consumes={counters: amounts} if counters else {},
    )


def _amounts(options: GpuOptions, parts: int) -> dict[str, Quantity]:
    whole = {"memory": Quantity(options.memory), "compute": Quantity(options.compute)}
    if parts == 1:
        return whole
    return {name: Quantity.of_value(amount.value() // parts, amount.format) for name, amount in whole.items()}


def _in_shares(name: str, amount: Quantity) -> DeviceCapacity:
    step = Quantity(_STEPS[name])
    allowed = CapacityRequestPolicyRange(min=step, max=amount, step=step)
    return DeviceCapacity(value=amount, request_policy=CapacityRequestPolicy(default=amount, valid_range=allowed))


def _counter_set(index: int) -> str:
    return f"gpu-{index}-counters"
