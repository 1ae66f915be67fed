"""How device classes of 1.31 are written: as today, with the nodes that suit controllers (docs/spec/api.md §7.4)."""

from __future__ import annotations

from cathedra.api import resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.classic.controlplane.kinds.claims import GATE
from cathedra.classic.controlplane.kinds.types import suitable_nodes
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.nodeselectors import validate_node_selector
from cathedra.kinds.resource.classes import ClassStrategy

__all__ = ["ControlledClassStrategy"]


class ControlledClassStrategy(ClassStrategy):
    """A device class; controllers may be kept to some nodes."""

    def prepare_create(self, obj: resource.DeviceClass, context: RequestContext) -> resource.DeviceClass:
        """Drop what closed gates forbid, start counting."""
        return super().prepare_create(obj if context.gates[GATE] else _without_nodes(obj), context)

    def validate_create(self, obj: resource.DeviceClass, context: RequestContext) -> ErrorList:
        """All rules of a class."""
        errors = super().validate_create(obj, context)
        _validate_nodes(errors, obj)
        return errors

    def prepare_update(
        self, new: resource.DeviceClass, old: resource.DeviceClass, context: RequestContext
    ) -> resource.DeviceClass:
        """Drop what closed gates forbid and the stored class does not use, count the change."""
        keeps = context.gates[GATE] or suitable_nodes(old) is not None
        return super().prepare_update(new if keeps else _without_nodes(new), old, context)

    def validate_update(
        self, new: resource.DeviceClass, old: resource.DeviceClass, context: RequestContext
    ) -> ErrorList:
        """All rules of a class; unchanged lists count as stored."""
        errors = super().validate_update(new, old, context)
        _validate_nodes(errors, new)
        return errors


def _validate_nodes(errors: ErrorList, device_class: resource.DeviceClass) -> None:
    nodes = suitable_nodes(device_class)
    if nodes is not None:
        # Kubernetes leaves ``spec`` out of this path.
        validate_node_selector(errors, FieldPath("suitableNodes"), nodes)


def _without_nodes(device_class: resource.DeviceClass) -> resource.DeviceClass:
    if suitable_nodes(device_class) is None:
        return device_class
    return replace(device_class, spec=replace(device_class.spec, suitable_nodes=None))
