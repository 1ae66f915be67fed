"""The kinds of the machinery's own groups: rbac, admission, coordination, policy and others, in one list."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import node_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, dns_label
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import AnyDefinition, Column
from cathedra.kinds.machinery.apiservices import api_service_definition
from cathedra.kinds.machinery.autoscaling import autoscaler_definition
from cathedra.kinds.machinery.customresources import custom_resource_definition
from cathedra.kinds.machinery.disruptionbudgets import disruption_budget_definition
from cathedra.kinds.machinery.flowcontrol import flow_schema_definition, priority_level_definition
from cathedra.kinds.machinery.leases import lease_definition
from cathedra.kinds.machinery.mutatingpolicies import mutating_policy_binding_definition, mutating_policy_definition
from cathedra.kinds.machinery.networking import networking_definitions
from cathedra.kinds.machinery.policies import policy_binding_definition, policy_definition
from cathedra.kinds.machinery.rbac import (
    cluster_role_binding_definition,
    cluster_role_definition,
    role_binding_definition,
    role_definition,
)
from cathedra.kinds.machinery.signingrequests import signing_request_definition
from cathedra.kinds.machinery.storage import storage_definitions
from cathedra.kinds.machinery.webhooks import mutating_webhook_definition, validating_webhook_definition
from cathedra.kinds.strategies import ObjectRules
from cathedra.releases import FeatureGates

RUNTIME_CLASS_COLUMNS: Final = (NAME, Column("Handler", description="The configuration of the runtime."), AGE)


def runtime_class_cells(runtime: node_v1.RuntimeClass, now: float) -> list[Any]:
    """Return the cells of a RuntimeClass."""
    return [runtime.metadata.name, runtime.handler, age(runtime.metadata.creation_timestamp, now)]


def _runtime_class_errors(runtime: node_v1.RuntimeClass) -> ErrorList:
    errors = ErrorList()
    check(errors, FieldPath("handler"), runtime.handler, dns_label)
    return errors


def _runtime_class_change(new: node_v1.RuntimeClass, old: node_v1.RuntimeClass) -> ErrorList:
    errors = ErrorList()
    if new.handler != old.handler:
        errors.invalid("handler", new.handler, "field is immutable")
    return errors


def machinery_definitions(gates: FeatureGates) -> tuple[AnyDefinition, ...]:
    """Return roles and bindings, admission policies and webhooks, custom resources, priorities, budgets and the
    like."""
    return (
        role_definition(),
        cluster_role_definition(),
        role_binding_definition(),
        cluster_role_binding_definition(),
        policy_definition(),
        policy_binding_definition(),
        mutating_policy_definition(gates),
        mutating_policy_binding_definition(gates),
        validating_webhook_definition(),
        mutating_webhook_definition(),
        custom_resource_definition(),
        api_service_definition(),
        disruption_budget_definition(),
        BuiltinKind(
            node_v1.RuntimeClass,
            "runtimeclasses",
            namespaced=False,
            rules=ObjectRules(_runtime_class_errors, _runtime_class_change),
            table=(RUNTIME_CLASS_COLUMNS, runtime_class_cells),
            created_by_update=True,
        ).definition(),
        lease_definition(),
        signing_request_definition(),
        *networking_definitions(),
        autoscaler_definition(),
        *storage_definitions(),
        flow_schema_definition(),
        priority_level_definition(),
    )
