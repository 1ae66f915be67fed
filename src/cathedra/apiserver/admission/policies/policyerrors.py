"""Validation of validating and mutating admission policies and their bindings
(docs/spec/apimachinery.md §16.6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from cathedra.api.core.admissionregistration_v1 import (
    AuditAnnotation,
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    MutatingAdmissionPolicySpec,
    Mutation,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    Validation,
)
from cathedra.api.field import ErrorList, ErrorType, FieldError, FieldPath
from cathedra.api.formats import check as check_format
from cathedra.api.formats import dns_subdomain, label_key, path_segment
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.struct import to_dict
from cathedra.apiserver.admission.ruleerrors import check_conditions, check_named_rule

if TYPE_CHECKING:
    from cathedra.cel.admission import PolicyCompileError

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_POLICIES: Final = ("Fail", "Ignore")
_MATCH_POLICIES: Final = ("Equivalent", "Exact")
_BOTH: Final = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_TYPES: Final = {"FieldValueInvalid": ErrorType.INVALID, "InternalError": ErrorType.INTERNAL}


def policy_errors(policy: ValidatingAdmissionPolicy, check: Callable[[], object] = bool) -> ErrorList:
    """Return the errors of a policy, those of the compiler last.

    ``check`` is called between expressions, and may raise an exception.
    """
    errors, spec = ErrorList(), policy.spec
    check_param_kind(errors, spec.param_kind)
    check_matching(errors, spec)
    if not spec.validations and not spec.audit_annotations:
        for name in ("validations", "auditAnnotations"):
            errors.required(f"spec.{name}", "validations or auditAnnotations must contain at least one item")
    for position, validation in enumerate(spec.validations):
        if not validation.expression.strip():
            errors.required(f"spec.validations[{position}].expression", "expression is not specified")
    from cathedra.cel.admission import compile_policy  # start-up time: CEL, with the first policy

    values, known = to_dict(spec), {error.field for error in errors}
    found = expression_errors(values, compile_policy(values, check).errors)
    errors.extend(error for error in found if error.field not in known)
    # After the expressions of their item, as in Kubernetes.
    _check_messages(errors, spec.validations)
    _check_annotation_keys(errors, policy.metadata.name, spec.audit_annotations)
    return in_order(errors)


def _check_messages(errors: ErrorList, validations: Sequence[Validation]) -> None:
    for position, validation in enumerate(validations):
        if validation.message and not validation.message.strip():
            path = f"spec.validations[{position}].message"
            errors.invalid(path, validation.message, "must be non-empty if specified")


def _check_annotation_keys(errors: ErrorList, policy: str, annotations: Sequence[AuditAnnotation]) -> None:
    """Audit events show an annotation under the name of its policy and its key."""
    seen: set[str] = set()
    for position, annotation in enumerate(annotations):
        path = f"spec.auditAnnotations[{position}].key"
        check_format(errors, path, f"{policy}/{annotation.key}", label_key)
        if annotation.key in seen:
            errors.duplicate(path, annotation.key)
        seen.add(annotation.key)


def binding_errors(binding: ValidatingAdmissionPolicyBinding) -> ErrorList:
    """Return the errors of a binding."""
    errors, spec = ErrorList(), binding.spec
    check_binding(errors, spec)
    actions = spec.validation_actions
    if not actions:
        errors.required("spec.validationActions", "at least one validation action is required")
    seen: set[str] = set()
    for position, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.not_supported(f"spec.validationActions[{position}]", action, list(_ACTIONS))
        elif action in seen:
            errors.duplicate(f"spec.validationActions[{position}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        errors.invalid("spec.validationActions", list(actions), _BOTH)
    return errors


def check_binding(
    errors: ErrorList, spec: ValidatingAdmissionPolicyBindingSpec | MutatingAdmissionPolicyBindingSpec
) -> None:
    """Check the fields that both kinds of bindings have: policy name, parameters, match resources."""
    if not spec.policy_name:
        errors.required("spec.policyName")
    else:
        for problem in dns_subdomain(spec.policy_name):
            errors.invalid("spec.policyName", spec.policy_name, problem)
    if spec.param_ref is not None:
        check_param_ref(errors, spec.param_ref)
    if spec.match_resources is not None:
        check_resources(errors, FieldPath("spec").child("matchResources"), spec.match_resources)


def check_param_kind(errors: ErrorList, kind: ParamKind | None) -> None:
    """Check that ``spec.paramKind``, if present, has an API version and a kind."""
    if kind is None:
        return
    for name, value in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if not value:
            errors.required(f"spec.paramKind.{name}")


def check_matching(errors: ErrorList, spec: ValidatingAdmissionPolicySpec | MutatingAdmissionPolicySpec) -> None:
    """Check the fields of both kinds of policies: failure policy, match constraints and conditions, variables."""
    if spec.failure_policy not in {None, *_POLICIES}:
        errors.not_supported("spec.failurePolicy", spec.failure_policy, list(_POLICIES))
    if spec.match_constraints is None:
        errors.required("spec.matchConstraints")
    else:
        path = FieldPath("spec").child("matchConstraints")
        check_resources(errors, path, spec.match_constraints)
        if not spec.match_constraints.resource_rules:
            errors.required(path.child("resourceRules"))
    check_conditions(errors, FieldPath("spec").child("matchConditions"), spec.match_conditions)
    for position, variable in enumerate(spec.variables):
        where = f"spec.variables[{position}].name"
        if not variable.name:
            errors.required(where)
        elif not _IDENTIFIER.fullmatch(variable.name):
            errors.invalid(where, variable.name, "must be a valid CEL identifier")


def check_resources(errors: ErrorList, path: FieldPath, resources: MatchResources) -> None:
    """Check the match resources of a policy or a binding."""
    if resources.match_policy not in {None, *_MATCH_POLICIES}:
        errors.not_supported(path.child("matchPolicy"), resources.match_policy, _MATCH_POLICIES)
    for name, rules in (
        ("resourceRules", resources.resource_rules),
        ("excludeResourceRules", resources.exclude_resource_rules),
    ):
        for position, rule in enumerate(rules):
            check_named_rule(errors, path.child(name).index(position), rule)


def check_param_ref(errors: ErrorList, ref: ParamRef) -> None:
    """Check the parameter reference of a binding."""
    for problem in path_segment(ref.name):
        errors.invalid("spec.paramRef.name", ref.name, problem)
    if ref.name and ref.selector is not None:
        for name in ("name", "selector"):
            errors.forbidden(f"spec.paramRef.{name}", "name and selector are mutually exclusive")
    if not ref.name and ref.selector is None:
        errors.required("spec.paramRef", "one of name or selector must be specified")
    action = ref.parameter_not_found_action
    if not action:
        errors.required("spec.paramRef.parameterNotFoundAction")
    elif action not in {"Allow", "Deny"}:
        errors.not_among("spec.paramRef.parameterNotFoundAction", action, ["Deny", "Allow"])


def in_order(errors: ErrorList) -> ErrorList:
    """Return the errors of a policy in Kubernetes' order: item by item, the names of conditions after expressions."""

    def place(error: FieldError) -> tuple[int, int, bool]:
        match = _ITEM.match(error.field)
        if match is None:
            return 0, 0, False
        return _SECTIONS.index(match["section"]) + 1, int(match["index"] or 0), match["field"] == "name"

    return ErrorList(sorted(errors, key=place))


_SECTIONS: Final = ("matchConditions", "variables", "validations", "auditAnnotations", "mutations")
_ITEM: Final = re.compile(rf"spec\.(?P<section>{'|'.join(_SECTIONS)})(?:\[(?P<index>\d+)\](?:\.(?P<field>\w+))?)?")
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)


def expression_errors(spec: JSONObject, found: Iterable[PolicyCompileError]) -> ErrorList:
    """Return the errors of the compiler as errors of the policy's fields."""
    errors = ErrorList()
    for one in found:
        value = _at(spec, one.field)
        if one.reason == "FieldValueNotSupported":
            errors.not_supported(one.field, value, ["Forbidden", "Invalid", "RequestEntityTooLarge"])
        else:
            errors.append(FieldError(_TYPES.get(one.reason, ErrorType.INVALID), one.field, value, one.text))
    return errors


def _at(spec: JSONObject, path: str) -> Any:
    """Return the value at a path like ``spec.validations[0].expression``."""
    value: Any = spec
    for part in path.removeprefix("spec.").split("."):
        name, _, rest = part.partition("[")
        value = value.get(name)
        if rest:
            value = value[int(rest.rstrip("]"))]
    return value


# --- mutating policies ----------------------------------------------------------------------------------------------


_REINVOCATION: Final = ("IfNeeded", "Never")
_MEMBERS: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


def mutating_policy_errors(policy: MutatingAdmissionPolicy, check: Callable[[], object] = bool) -> ErrorList:
    """Return the errors of a policy, those of the compiler last.

    ``check`` is called between expressions, and may raise an exception.
    """
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
    return in_order(errors)


def mutating_binding_errors(binding: MutatingAdmissionPolicyBinding) -> ErrorList:
    """Return the errors of a binding."""
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
