"""What is wrong with a MutatingAdmissionPolicy or its binding when it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cathedra.api.core.admissionregistration_v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    Mutation,
)
from cathedra.api.field import ErrorList
from cathedra.api.struct import to_dict
from cathedra.apiserver.admission.policies.policyerrors import (
    check_binding,
    check_matching,
    check_param_kind,
    expression_errors,
)

__all__ = ["mutating_binding_errors", "mutating_policy_errors"]

_REINVOCATION: Final = ("IfNeeded", "Never")
_MEMBERS: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


def mutating_policy_errors(policy: MutatingAdmissionPolicy, check: Callable[[], object] = bool) -> ErrorList:
    """Everything that is wrong with a policy, what the compiler says of its expressions last. ``check`` is called
    between expressions, and may raise an exception."""
    errors, spec = ErrorList(), policy.spec
    check_param_kind(errors, spec.param_kind)
    check_matching(errors, spec)
    if not spec.mutations:
        errors.required("spec.mutations", "mutations must contain at least one item")
    for position, mutation in enumerate(spec.mutations):
        _check_mutation(errors, f"spec.mutations[{position}]", mutation)
    if not spec.reinvocation_policy:
        errors.required("spec.reinvocationPolicy")
    elif spec.reinvocation_policy not in _REINVOCATION:
        errors.not_supported("spec.reinvocationPolicy", spec.reinvocation_policy, list(_REINVOCATION))
    if not errors:
        # start-up time: CEL, with the first policy
        from cathedra.cel.admission import compile_mutations

        values = to_dict(spec)
        errors.extend(expression_errors(values, compile_mutations(values, check).errors))
    return errors


def mutating_binding_errors(binding: MutatingAdmissionPolicyBinding) -> ErrorList:
    """Everything that is wrong with a binding."""
    errors, spec = ErrorList(), binding.spec
    check_binding(errors, spec)
    return errors


def _check_mutation(errors: ErrorList, path: str, mutation: Mutation) -> None:
    given: dict[str, Any] = {"applyConfiguration": mutation.apply_configuration, "jsonPatch": mutation.json_patch}
    if not mutation.patch_type:
        errors.required(f"{path}.patchType")
        return
    if mutation.patch_type not in _MEMBERS:
        errors.not_supported(f"{path}.patchType", mutation.patch_type, sorted(_MEMBERS))
        return
    wanted = _MEMBERS[mutation.patch_type]
    for name, member in given.items():
        if name != wanted and member is not None:
            errors.invalid(
                f"{path}.{name}", f"{{{name}}}", f"must not be specified when patchType is {mutation.patch_type}"
            )
    chosen = given[wanted]
    if chosen is None:
        errors.required(f"{path}.{wanted}", f"must be specified when patchType is {mutation.patch_type}")
    elif not chosen.expression.strip():
        errors.required(f"{path}.{wanted}.expression", "expression is not specified")
