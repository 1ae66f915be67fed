"""Every served kind, described once: `all_definitions` is what server, discovery, tables and clients are driven by.

`devices` has the kinds of DRA (their strategies in `claims` and `slices`), `pods`, `core`, `workloads`, `groups` and
`machinery` the others; `strategies` holds what most kinds have in common.
"""

from __future__ import annotations

from typing import Any

from cathedra.api.definition import ResourceDefinition
from cathedra.api.definitions.core import core_definitions
from cathedra.api.definitions.devices import device_definitions
from cathedra.api.definitions.groups import group_definitions
from cathedra.api.definitions.machinery import machinery_definitions
from cathedra.api.definitions.pods import pod_definition
from cathedra.api.definitions.workloads import workload_definitions
from cathedra.api.gates import FeatureGates

__all__ = ["all_definitions"]


def all_definitions(gates: FeatureGates) -> tuple[ResourceDefinition[Any], ...]:
    """Every kind that the release serves, gated kinds only if their gate is open."""
    kinds = (
        *core_definitions(),
        pod_definition(),
        *workload_definitions(),
        *machinery_definitions(),
        *device_definitions(gates),
        *group_definitions(gates),
    )
    return tuple(kind for kind in kinds if not kind.gate or gates[kind.gate])
