"""The kinds of the machinery's own groups: rbac, admission, coordination, policy and others, in one list."""

from __future__ import annotations

from typing import Any

from cathedra.api.core import discovery_v1, networking_v1, node_v1, storage_v1
from cathedra.kinds.builtin import builtin
from cathedra.kinds.definition import ResourceDefinition
from cathedra.kinds.machinery.customresources import custom_resource_definition
from cathedra.kinds.machinery.disruptionbudgets import disruption_budget_definition
from cathedra.kinds.machinery.leases import lease_definition
from cathedra.kinds.machinery.policies import policy_binding_definition, policy_definition
from cathedra.kinds.machinery.rbac import (
    cluster_role_binding_definition,
    cluster_role_definition,
    role_binding_definition,
    role_definition,
)
from cathedra.kinds.machinery.signingrequests import signing_request_definition
from cathedra.kinds.machinery.webhooks import mutating_webhook_definition, validating_webhook_definition

__all__ = ["machinery_definitions"]


def machinery_definitions() -> tuple[ResourceDefinition[Any], ...]:
    """Roles and bindings, admission policies and webhooks, custom resources, priorities, budgets and the like."""
    return (
        role_definition(),
        cluster_role_definition(),
        role_binding_definition(),
        cluster_role_binding_definition(),
        policy_definition(),
        policy_binding_definition(),
        validating_webhook_definition(),
        mutating_webhook_definition(),
        custom_resource_definition(),
        disruption_budget_definition(),
        builtin(node_v1.RuntimeClass, "runtimeclasses", namespaced=False),
        lease_definition(),
        builtin(discovery_v1.EndpointSlice, "endpointslices", namespaced=True),
        signing_request_definition(),
        builtin(networking_v1.NetworkPolicy, "networkpolicies", namespaced=True, short_names=("netpol",)),
        builtin(networking_v1.Ingress, "ingresses", namespaced=True, short_names=("ing",), counts_generation=True),
        builtin(storage_v1.StorageClass, "storageclasses", namespaced=False, short_names=("sc",)),
        builtin(storage_v1.CSIDriver, "csidrivers", namespaced=False),
        builtin(storage_v1.CSINode, "csinodes", namespaced=False),
        builtin(storage_v1.CSIStorageCapacity, "csistoragecapacities", namespaced=True),
        builtin(storage_v1.VolumeAttachment, "volumeattachments", namespaced=False),
    )
