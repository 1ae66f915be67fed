"""Columns and cells of the classic kinds (docs/spec/api.md §7.3)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column

__all__ = [
    "CLAIM_COLUMNS",
    "CLASS_COLUMNS",
    "CONTEXT_COLUMNS",
    "TEMPLATE_COLUMNS",
    "claim_cells",
    "claim_state",
    "class_cells",
    "context_cells",
    "template_cells",
]

_CLASS: Final = Column("ResourceClassName", description="The class whose driver allocates.")
_MODE: Final = Column("AllocationMode", description="Whether allocation waits for the first consumer.")
CLASS_COLUMNS: Final = (NAME, Column("DriverName", description="The driver that allocates."), AGE)
CLAIM_COLUMNS: Final = (
    NAME,
    _CLASS,
    _MODE,
    Column("State", description="Whether the claim is allocated, reserved, deleted."),
    AGE,
)
TEMPLATE_COLUMNS: Final = (NAME, _CLASS, _MODE, AGE)
CONTEXT_COLUMNS: Final = (NAME, Column("SelectedNode", description="The node on which claims are wanted."), AGE)


def claim_state(claim: v1alpha2.ResourceClaim) -> str:
    """The claim's state in words, joined by commas: «allocated,reserved»."""
    deleted = claim.metadata.deletion_timestamp is not None
    states = ["deleted"] if deleted else []
    if claim.status.allocation is None:
        return ",".join(states or ["pending"])
    states.append("allocated")
    if claim.status.reserved_for:
        states.append("reserved")
    elif deleted or claim.status.deallocation_requested:
        states.append("deallocating")
    return ",".join(states)


def class_cells(resource_class: v1alpha2.ResourceClass, now: float) -> list[Any]:
    """Cells of a ResourceClass."""
    metadata = resource_class.metadata
    return [metadata.name, resource_class.driver_name, age(metadata.creation_timestamp, now)]


def claim_cells(claim: v1alpha2.ResourceClaim, now: float) -> list[Any]:
    """Cells of a ResourceClaim."""
    return [
        claim.metadata.name,
        claim.spec.resource_class_name,
        claim.spec.allocation_mode,
        claim_state(claim),
        age(claim.metadata.creation_timestamp, now),
    ]


def template_cells(template: v1alpha2.ResourceClaimTemplate, now: float) -> list[Any]:
    """Cells of a ResourceClaimTemplate."""
    metadata, spec = template.metadata, template.spec.spec
    return [metadata.name, spec.resource_class_name, spec.allocation_mode, age(metadata.creation_timestamp, now)]


def context_cells(context: v1alpha2.PodSchedulingContext, now: float) -> list[Any]:
    """Cells of a PodScheduling or PodSchedulingContext."""
    metadata = context.metadata
    return [metadata.name, context.spec.selected_node, age(metadata.creation_timestamp, now)]
