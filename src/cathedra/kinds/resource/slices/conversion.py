"""Slices in v1beta1, where devices are wrapped in ``basic``, and in v1alpha3 of 1.32 and 1.33, where capacities are
bare quantities besides (docs/spec/api.md §5.2, §5.3)."""

from __future__ import annotations

from typing import Final

from cathedra.api import resource as v1
from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.core import resource_v1beta1 as v1beta1
from cathedra.api.struct import EMPTY_LIST, replace, reshape
from cathedra.kinds.definition import VersionDefinition
from cathedra.kinds.resource.slices.defaults import BareName
from cathedra.kinds.resource.versions import Shapes, beta_version, reshape_all


def slice_to_hub(piece: v1beta1.ResourceSlice) -> v1.ResourceSlice:
    """Return the slice with its devices' properties hoisted."""
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
    """Return the slice with its devices' properties in ``basic``, which is always there."""
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


def alpha_slice_to_hub(piece: v1alpha3.ResourceSlice) -> v1.ResourceSlice:
    """Return the slice with its devices' properties hoisted and its capacities wrapped."""
    capacities = [device.basic.capacity if device.basic is not None else {} for device in piece.spec.devices]
    hub = slice_to_hub(reshape(_without_capacity(piece), v1beta1.ResourceSlice))
    devices = tuple(
        replace(device, capacity={name: v1.DeviceCapacity(value=value) for name, value in capacity.items()})
        for device, capacity in zip(hub.spec.devices, capacities, strict=True)
    )
    return replace(hub, spec=replace(hub.spec, devices=devices or hub.spec.devices))


def _without_capacity(piece: v1alpha3.ResourceSlice) -> v1alpha3.ResourceSlice:
    devices = tuple(
        device if device.basic is None else replace(device, basic=replace(device.basic, capacity={}))
        for device in piece.spec.devices
    )
    return replace(piece, spec=replace(piece.spec, devices=devices or piece.spec.devices))


def alpha_slice_from_hub(piece: v1.ResourceSlice) -> v1alpha3.ResourceSlice:
    """Return the slice with its devices' properties in ``basic`` and bare capacities."""
    bare = replace(
        piece,
        spec=replace(piece.spec, devices=tuple(replace(device, capacity={}) for device in piece.spec.devices)),
    )
    old = reshape(slice_from_hub(bare), v1alpha3.ResourceSlice)
    devices = tuple(
        v1alpha3.Device(
            name=device.name,
            basic=replace(
                device.basic or v1alpha3.BasicDevice(),
                capacity={name: capacity.value for name, capacity in hub.capacity.items()},
            ),
        )
        for device, hub in zip(old.spec.devices, piece.spec.devices, strict=True)
    )
    return replace(old, spec=replace(old.spec, devices=devices))


def _device_to_hub(device: v1beta1.Device) -> v1.Device:
    if device.basic is None:
        return v1.Device(name=BareName(device.name))
    return replace(reshape(device.basic, v1.Device), name=device.name)


SLICE_SHAPES: Final = Shapes(
    v1.ResourceSlice,
    beta_version(v1beta1.ResourceSlice, slice_to_hub, slice_from_hub),
    VersionDefinition(
        "v1alpha3", v1alpha3.ResourceSlice, alpha_slice_to_hub, alpha_slice_from_hub, served_by_default=False
    ),
)
"""The slice in each version."""
