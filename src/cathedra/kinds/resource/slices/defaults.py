"""Defaults of slices: multipliers, and since when taints are there (docs/spec/api.md §4)."""

from __future__ import annotations

from typing import Final

from cathedra.api import resource
from cathedra.api.struct import Quantity, replace
from cathedra.kinds.resource.names import dated_taint


class BareName(str):
    """The name of a device that came without ``basic`` from an older version: until 1.32 it had to be there."""

    __slots__ = ()


_ONE: Final = Quantity("1")


def default_slice(piece: resource.ResourceSlice, now: float) -> resource.ResourceSlice:
    """Return a slice whose taints have times."""
    devices = piece.spec.devices
    if any(device.node_allocatable_resource_mappings for device in devices):
        devices = tuple(_multiplied(device) for device in devices)
        piece = replace(piece, spec=replace(piece.spec, devices=devices))
    if all(taint.time_added is not None for device in devices for taint in device.taints):
        return piece
    dated = tuple(
        replace(device, taints=tuple(dated_taint(taint, now) for taint in device.taints)) if device.taints else device
        for device in devices
    )
    return replace(piece, spec=replace(piece.spec, devices=dated))


def _multiplied(device: resource.Device) -> resource.Device:
    """Return the device with the default multiplier of release 1.36, which is one."""
    mappings = {
        name: mapping if mapping.allocation_multiplier is not None else replace(mapping, allocation_multiplier=_ONE)
        for name, mapping in device.node_allocatable_resource_mappings.items()
    }
    return replace(device, node_allocatable_resource_mappings=mappings)
