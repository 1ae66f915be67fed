"""Slices in resource.k8s.io/v1beta1, where devices are wrapped in ``basic`` (docs/spec/api.md §5.2)."""

from __future__ import annotations

from typing import Final

from cathedra.api import resource as v1
from cathedra.api.core import resource_v1beta1 as v1beta1
from cathedra.api.struct import EMPTY_LIST, replace, reshape
from cathedra.kinds.resource.versions import reshape_all

__all__ = ["slice_from_hub", "slice_to_hub"]

_BASIC: Final = tuple(name for name in v1.Device.__struct_fields__ if name != "name")


def slice_to_hub(piece: v1beta1.ResourceSlice) -> v1.ResourceSlice:
    """The slice with its devices' properties hoisted."""
    spec = piece.spec
    devices = spec.devices
    hub = v1.ResourceSliceSpec(
        driver=spec.driver,
        pool=reshape(spec.pool, v1.ResourcePool),
        node_name=spec.node_name or None,
        node_selector=spec.node_selector,
        all_nodes=spec.all_nodes or None,
        devices=devices if devices is EMPTY_LIST else tuple(_device_to_hub(device) for device in devices),
        per_device_node_selection=spec.per_device_node_selection,
        shared_counters=reshape_all(spec.shared_counters, v1.CounterSet),
        partition_type_attribute=spec.partition_type_attribute,
        skip_node_operations=spec.skip_node_operations,
    )
    return v1.ResourceSlice(metadata=piece.metadata, spec=hub)


def slice_from_hub(piece: v1.ResourceSlice) -> v1beta1.ResourceSlice:
    """The slice with its devices' properties in ``basic``, which is always there."""
    spec = piece.spec
    old = v1beta1.ResourceSliceSpec(
        driver=spec.driver,
        pool=reshape(spec.pool, v1beta1.ResourcePool),
        node_name=spec.node_name or "",
        node_selector=spec.node_selector,
        all_nodes=bool(spec.all_nodes),
        devices=tuple(
            v1beta1.Device(name=device.name, basic=reshape(device, v1beta1.BasicDevice)) for device in spec.devices
        ),
        per_device_node_selection=spec.per_device_node_selection,
        shared_counters=reshape_all(spec.shared_counters, v1beta1.CounterSet),
        partition_type_attribute=spec.partition_type_attribute,
        skip_node_operations=spec.skip_node_operations,
    )
    return v1beta1.ResourceSlice(metadata=piece.metadata, spec=old)


def _device_to_hub(device: v1beta1.Device) -> v1.Device:
    if device.basic is None:
        return v1.Device(name=device.name)
    return replace(reshape(device.basic, v1.Device), name=device.name)
