"""Tables of leases, roles, priorities, budgets, admission and definitions (spec: apimachinery.md, section 10)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import (
    admissionregistration_v1,
    apiextensions_v1,
    coordination_v1,
    policy_v1,
    rbac_v1,
    scheduling_v1,
)
from cathedra.api.definition import Column
from cathedra.api.tables.ages import AGE, CREATED_AT, NAME, age

LEASE_COLUMNS: Final = (NAME, Column("Holder", description="Who holds the lease."), AGE)
PRIORITY_COLUMNS: Final = (
    NAME,
    Column("Value", type="integer", description="The priority."),
    Column("Global-Default", type="boolean", description="Whether pods without a class get it."),
    AGE,
    Column("PreemptionPolicy", description="Whether such pods may push out others."),
)
BUDGET_COLUMNS: Final = (
    NAME,
    Column("Min Available", description="Pods that must stay."),
    Column("Max Unavailable", description="Pods that may go."),
    Column("Allowed Disruptions", type="integer", description="Pods that may go now."),
    AGE,
)
BINDING_COLUMNS: Final = (
    NAME,
    Column("Role", description="The role that is given."),
    AGE,
    Column("Users", priority=1, description="Users it is given to."),
    Column("Groups", priority=1, description="Groups it is given to."),
    Column("ServiceAccounts", priority=1, description="Service accounts it is given to."),
)
POLICY_COLUMNS: Final = (
    NAME,
    Column("Validations", type="integer", description="How many expressions must hold."),
    Column("ParamKind", description="The kind of its parameters."),
    AGE,
)
POLICY_BINDING_COLUMNS: Final = (
    NAME,
    Column("PolicyName", description="The policy that is put in force."),
    Column("ParamRef", description="The parameters it is given."),
    AGE,
)
WEBHOOK_COLUMNS: Final = (NAME, Column("Webhooks", type="integer", description="How many webhooks."), AGE)
GENERIC_COLUMNS: Final = (NAME, CREATED_AT)


def generic_cells(obj: Any, now: float) -> list[Any]:
    """Cells of a kind without a table of its own: name and moment of creation."""
    created = obj.metadata.creation_timestamp
    return [obj.metadata.name, str(created) if created else "<unknown>"]


def lease_cells(lease: coordination_v1.Lease, now: float) -> list[Any]:
    """Cells of a Lease."""
    return [lease.metadata.name, lease.spec.holder_identity or "", age(lease.metadata.creation_timestamp, now)]


def priority_cells(priority: scheduling_v1.PriorityClass, now: float) -> list[Any]:
    """Cells of a PriorityClass."""
    return [
        priority.metadata.name,
        priority.value,
        priority.global_default,
        age(priority.metadata.creation_timestamp, now),
        priority.preemption_policy or "PreemptLowerPriority",
    ]


def budget_cells(budget: policy_v1.PodDisruptionBudget, now: float) -> list[Any]:
    """Cells of a PodDisruptionBudget."""
    least, most = budget.spec.min_available, budget.spec.max_unavailable
    return [
        budget.metadata.name,
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        budget.status.disruptions_allowed,
        age(budget.metadata.creation_timestamp, now),
    ]


def binding_cells(binding: rbac_v1.RoleBinding | rbac_v1.ClusterRoleBinding, now: float) -> list[Any]:
    """Cells of a RoleBinding or ClusterRoleBinding."""
    named: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in binding.subjects:
        accounts = subject.kind == "ServiceAccount"
        named.setdefault(subject.kind, []).append(f"{subject.namespace}/{subject.name}" if accounts else subject.name)
    return [
        binding.metadata.name,
        f"{binding.role_ref.kind}/{binding.role_ref.name}",
        age(binding.metadata.creation_timestamp, now),
        *(", ".join(named[kind]) for kind in ("User", "Group", "ServiceAccount")),
    ]


def policy_cells(policy: admissionregistration_v1.ValidatingAdmissionPolicy, now: float) -> list[Any]:
    """Cells of a ValidatingAdmissionPolicy."""
    kind = policy.spec.param_kind
    return [
        policy.metadata.name,
        len(policy.spec.validations),
        f"{kind.api_version}/{kind.kind}" if kind else "<unset>",
        age(policy.metadata.creation_timestamp, now),
    ]


def policy_binding_cells(binding: admissionregistration_v1.ValidatingAdmissionPolicyBinding, now: float) -> list[Any]:
    """Cells of a ValidatingAdmissionPolicyBinding."""
    reference = binding.spec.param_ref
    shown = "<unset>"
    if reference is not None:
        shown = f"{reference.namespace}/{reference.name}" if reference.namespace else reference.name or "*"
    created = age(binding.metadata.creation_timestamp, now)
    return [binding.metadata.name, binding.spec.policy_name, shown, created]


def webhook_cells(
    configuration: (
        admissionregistration_v1.ValidatingWebhookConfiguration | admissionregistration_v1.MutatingWebhookConfiguration
    ),
    now: float,
) -> list[Any]:
    """Cells of a webhook configuration."""
    created = age(configuration.metadata.creation_timestamp, now)
    return [configuration.metadata.name, len(configuration.webhooks), created]


def crd_cells(definition: apiextensions_v1.CustomResourceDefinition, now: float) -> list[Any]:
    """Cells of a CustomResourceDefinition."""
    return generic_cells(definition, now)
