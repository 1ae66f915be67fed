"""The kinds of resource.k8s.io that a release has (docs/spec/api.md §1)."""

from __future__ import annotations

from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.resource.claims.strategy import claim_definition, template_definition
from cathedra.kinds.resource.classes import class_definition
from cathedra.kinds.resource.poolstatusrequests import pool_status_request_definition
from cathedra.kinds.resource.slices.strategy import slice_definition
from cathedra.kinds.resource.taintrules import taint_rule_definition
from cathedra.kinds.resource.versions import GROUP
from cathedra.releases import FeatureGates
from cathedra.releases.served import versions


def device_definitions(gates: FeatureGates) -> tuple[AnyDefinition, ...]:
    """Return the kinds of the group that the release has."""
    kinds: list[AnyDefinition] = [
        class_definition(gates),
        claim_definition(gates),
        template_definition(gates),
        slice_definition(gates),
    ]
    if versions(gates.release, GROUP, "DeviceTaintRule"):
        kinds.append(taint_rule_definition(gates))
    if versions(gates.release, GROUP, "ResourcePoolStatusRequest"):
        kinds.append(pool_status_request_definition(gates))
    return tuple(kinds)
