"""Validating admission policies and their bindings."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import admissionregistration_v1, meta_v1
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import CountedStrategy

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


def default_policy(
    policy: admissionregistration_v1.ValidatingAdmissionPolicy,
) -> admissionregistration_v1.ValidatingAdmissionPolicy:
    """Return the object with its defaults: a policy that refuses when it cannot be evaluated."""
    spec = policy.spec
    changes: dict[str, Any] = absent(spec, failure_policy="Fail")
    if spec.match_constraints is not None:
        changes["match_constraints"] = match_resources(spec.match_constraints)
    return replace(policy, spec=replace(spec, **changes))


def default_policy_binding(
    binding: admissionregistration_v1.ValidatingAdmissionPolicyBinding,
) -> admissionregistration_v1.ValidatingAdmissionPolicyBinding:
    """Return the object with its defaults: a binding that matches by equivalence."""
    if binding.spec.match_resources is None:
        return binding
    return replace(binding, spec=replace(binding.spec, match_resources=match_resources(binding.spec.match_resources)))


def match_resources(match: admissionregistration_v1.MatchResources) -> admissionregistration_v1.MatchResources:
    """Matching by equivalence, in every scope, with selectors that select everything."""
    return replace(
        match,
        resource_rules=tuple(scoped(rule) for rule in match.resource_rules),
        exclude_resource_rules=tuple(scoped(rule) for rule in match.exclude_resource_rules),
        **selectors(match),
    )


def selectors(obj: Any) -> dict[str, Any]:
    return absent(
        obj,
        match_policy="Equivalent",
        namespace_selector=meta_v1.LabelSelector(),
        object_selector=meta_v1.LabelSelector(),
    )


def scoped(rule: Any) -> Any:
    return replace(rule, **absent(rule, scope="*"))


def policy_cells(policy: admissionregistration_v1.ValidatingAdmissionPolicy, now: float) -> list[Any]:
    """Return the cells of a ValidatingAdmissionPolicy."""
    kind = policy.spec.param_kind
    return [
        policy.metadata.name,
        len(policy.spec.validations),
        f"{kind.api_version}/{kind.kind}" if kind else "<unset>",
        age(policy.metadata.creation_timestamp, now),
    ]


def policy_binding_cells(binding: admissionregistration_v1.ValidatingAdmissionPolicyBinding, now: float) -> list[Any]:
    """Return the cells of a ValidatingAdmissionPolicyBinding."""
    created = age(binding.metadata.creation_timestamp, now)
    return [binding.metadata.name, binding.spec.policy_name, param_ref_cell(binding.spec.param_ref), created]


def param_ref_cell(reference: admissionregistration_v1.ParamRef | None) -> str:
    """Return the parameters of a binding as one cell."""
    if reference is None:
        return "<unset>"
    return f"{reference.namespace}/{reference.name}" if reference.namespace else reference.name or "*"


def policy_definition() -> ResourceDefinition[admissionregistration_v1.ValidatingAdmissionPolicy]:
    """Return the definition of validatingadmissionpolicies."""
    return BuiltinKind(
        admissionregistration_v1.ValidatingAdmissionPolicy,
        "validatingadmissionpolicies",
        namespaced=False,
        default=default_policy,
        counts_generation=True,
        table=(POLICY_COLUMNS, policy_cells),
        categories=("api-extensions",),
    ).definition()


def policy_binding_definition() -> ResourceDefinition[admissionregistration_v1.ValidatingAdmissionPolicyBinding]:
    """Return the definition of validatingadmissionpolicybindings."""
    return BuiltinKind(
        admissionregistration_v1.ValidatingAdmissionPolicyBinding,
        "validatingadmissionpolicybindings",
        namespaced=False,
        strategy=CountedStrategy(default_policy_binding),
        table=(POLICY_BINDING_COLUMNS, policy_binding_cells),
        categories=("api-extensions",),
    ).definition()
