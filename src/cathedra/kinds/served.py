"""The kinds that a release serves: the list that server, discovery, tables and clients are driven by."""

from __future__ import annotations

from typing import Any

from cathedra.api.gates import FeatureGates
from cathedra.kinds.apps.definitions import apps_definitions
from cathedra.kinds.batch.definitions import batch_definitions
from cathedra.kinds.core.definitions import core_definitions
from cathedra.kinds.definition import ResourceDefinition
from cathedra.kinds.machinery.definitions import machinery_definitions
from cathedra.kinds.resource.definitions import device_definitions
from cathedra.kinds.scheduling.definitions import scheduling_definitions

__all__ = ["all_definitions"]


def all_definitions(gates: FeatureGates) -> tuple[ResourceDefinition[Any], ...]:
    """Every kind that the release serves, gated kinds only if their gate is open."""
    kinds = (
        *core_definitions(),
        *apps_definitions(),
        *batch_definitions(),
        *machinery_definitions(),
        *scheduling_definitions(gates),
        *device_definitions(gates),
    )
    return tuple(kind for kind in kinds if not kind.gate or gates[kind.gate])
