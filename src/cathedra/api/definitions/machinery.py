"""Definitions of the machinery's own kinds: roles, admission, custom resources, priorities, budgets, storage,
requests."""

from __future__ import annotations

from typing import Any

from cathedra.api.core import (
    admissionregistration_v1,
    apiextensions_v1,
    certificates_v1,
    networking_v1,
    node_v1,
    policy_v1,
    rbac_v1,
    scheduling_v1,
    storage_v1,
)
from cathedra.api.defaulting import machinery
from cathedra.api.definition import RequestContext, ResourceDefinition
from cathedra.api.definitions.names import builtin
from cathedra.api.definitions.strategies import DefaultedStrategy, Rules, first_generation, next_generation
from cathedra.api.struct import replace
from cathedra.api.tables import machinery as tables
from cathedra.api.validation import rbac
from cathedra.api.validation.core import validate_priority_class, validate_priority_class_update

__all__ = ["machinery_definitions"]


class CountedStrategy(DefaultedStrategy[Any]):
    """A kind without a status of its own whose generation counts."""

    def prepare_create(self, obj: Any, context: RequestContext) -> Any:
        """Start counting."""
        return first_generation(obj)

    def prepare_update(self, new: Any, old: Any, context: RequestContext) -> Any:
        """Count a change."""
        if hasattr(new, "spec"):
            return next_generation(new, old)
        generation = old.metadata.generation + (new.webhooks != old.webhooks)
        return replace(new, metadata=replace(new.metadata, generation=generation))


def machinery_definitions() -> tuple[ResourceDefinition[Any], ...]:
    """Roles and bindings, admission policies and webhooks, custom resources, priorities, budgets and the like."""
    bindings = (tables.BINDING_COLUMNS, tables.binding_cells)
    return (
        builtin(
            rbac_v1.Role,
            "roles",
            namespaced=True,
            rules=Rules(rbac.validate_role, lambda new, old: rbac.validate_role(new)),
        ),
        builtin(
            rbac_v1.ClusterRole,
            "clusterroles",
            namespaced=False,
            rules=Rules(rbac.validate_cluster_role, lambda new, old: rbac.validate_cluster_role(new)),
        ),
        builtin(
            rbac_v1.RoleBinding,
            "rolebindings",
            namespaced=True,
            default=machinery.default_role_binding,
            rules=Rules(rbac.validate_binding, rbac.validate_binding_update),
            table=bindings,
        ),
        builtin(
            rbac_v1.ClusterRoleBinding,
            "clusterrolebindings",
            namespaced=False,
            default=machinery.default_cluster_role_binding,
            rules=Rules(rbac.validate_binding, rbac.validate_binding_update),
            table=bindings,
        ),
        builtin(
            admissionregistration_v1.ValidatingAdmissionPolicy,
            "validatingadmissionpolicies",
            namespaced=False,
            default=machinery.default_policy,
            counts_generation=True,
            table=(tables.POLICY_COLUMNS, tables.policy_cells),
            categories=("api-extensions",),
        ),
        builtin(
            admissionregistration_v1.ValidatingAdmissionPolicyBinding,
            "validatingadmissionpolicybindings",
            namespaced=False,
            strategy=CountedStrategy(machinery.default_policy_binding),
            table=(tables.POLICY_BINDING_COLUMNS, tables.policy_binding_cells),
            categories=("api-extensions",),
        ),
        builtin(
            admissionregistration_v1.ValidatingWebhookConfiguration,
            "validatingwebhookconfigurations",
            namespaced=False,
            strategy=CountedStrategy(machinery.default_webhooks),
            table=(tables.WEBHOOK_COLUMNS, tables.webhook_cells),
            categories=("api-extensions",),
        ),
        builtin(
            admissionregistration_v1.MutatingWebhookConfiguration,
            "mutatingwebhookconfigurations",
            namespaced=False,
            strategy=CountedStrategy(machinery.default_webhooks),
            table=(tables.WEBHOOK_COLUMNS, tables.webhook_cells),
            categories=("api-extensions",),
        ),
        builtin(
            apiextensions_v1.CustomResourceDefinition,
            "customresourcedefinitions",
            namespaced=False,
            counts_generation=True,
            table=(tables.GENERIC_COLUMNS, tables.crd_cells),
            short_names=("crd", "crds"),
            categories=("api-extensions",),
        ),
        builtin(
            scheduling_v1.PriorityClass,
            "priorityclasses",
            namespaced=False,
            strategy=CountedPriority(
                machinery.default_priority_class, Rules(validate_priority_class, validate_priority_class_update)
            ),
            table=(tables.PRIORITY_COLUMNS, tables.priority_cells),
            short_names=("pc",),
        ),
        builtin(
            policy_v1.PodDisruptionBudget,
            "poddisruptionbudgets",
            namespaced=True,
            counts_generation=True,
            table=(tables.BUDGET_COLUMNS, tables.budget_cells),
            short_names=("pdb",),
        ),
        builtin(node_v1.RuntimeClass, "runtimeclasses", namespaced=False),
        builtin(
            certificates_v1.CertificateSigningRequest,
            "certificatesigningrequests",
            namespaced=False,
            short_names=("csr",),
            field_selectors={"spec.signerName": lambda request: request.spec.signer_name},
        ),
        builtin(networking_v1.NetworkPolicy, "networkpolicies", namespaced=True, short_names=("netpol",)),
        builtin(networking_v1.Ingress, "ingresses", namespaced=True, short_names=("ing",), counts_generation=True),
        builtin(storage_v1.StorageClass, "storageclasses", namespaced=False, short_names=("sc",)),
        builtin(storage_v1.CSIDriver, "csidrivers", namespaced=False),
        builtin(storage_v1.CSINode, "csinodes", namespaced=False),
        builtin(storage_v1.CSIStorageCapacity, "csistoragecapacities", namespaced=True),
        builtin(storage_v1.VolumeAttachment, "volumeattachments", namespaced=False),
    )


class CountedPriority(DefaultedStrategy[scheduling_v1.PriorityClass]):
    """Priority classes are at generation 1, for their value never changes."""

    def prepare_create(self, obj: scheduling_v1.PriorityClass, context: RequestContext) -> scheduling_v1.PriorityClass:
        """Start counting."""
        return first_generation(obj)
