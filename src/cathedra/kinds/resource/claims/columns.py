"""Columns and cells of claims."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api import resource
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column

__all__ = ["CLAIM_COLUMNS", "claim_cells", "claim_state"]

CLAIM_COLUMNS: Final = (NAME, Column("State", description="Whether the claim is allocated, reserved, deleted."), AGE)


def claim_state(claim: resource.ResourceClaim) -> str:
    """The claim's state in words, joined by commas: «allocated,reserved»."""
    states = ["deleted"] if claim.metadata.deletion_timestamp else []
    if claim.status.allocation is not None:
        states.append("allocated")
        if claim.status.reserved_for:
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


def claim_cells(claim: resource.ResourceClaim, now: float) -> list[Any]:
    """Cells of a ResourceClaim."""
    return [claim.metadata.name, claim_state(claim), age(claim.metadata.creation_timestamp, now)]
