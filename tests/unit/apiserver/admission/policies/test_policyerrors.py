"""What is wrong with policies and bindings when they are written."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.admissionregistration_v1 import (
    MatchCondition,
    MatchResources,
    NamedRuleWithOperations,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    Validation,
    Variable,
)
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.struct import replace
from cathedra.apiserver.admission.policies.policyerrors import binding_errors, policy_errors

RULE = NamedRuleWithOperations(
    api_groups=("",), api_versions=("v1",), resources=("configmaps",), operations=("CREATE",)
)
GOOD = ValidatingAdmissionPolicySpec(
    match_constraints=MatchResources(resource_rules=(RULE,)), validations=(Validation(expression="true"),)
)
BOUND = ValidatingAdmissionPolicyBindingSpec(policy_name="p", validation_actions=("Deny",))


def policy_fields(**changes: Any) -> list[str]:
    policy = ValidatingAdmissionPolicy(metadata=ObjectMeta(name="p"), spec=replace(GOOD, **changes))
    return [error.field for error in policy_errors(policy)]


def binding_fields(**changes: Any) -> list[str]:
    binding = ValidatingAdmissionPolicyBinding(metadata=ObjectMeta(name="b"), spec=replace(BOUND, **changes))
    return [error.field for error in binding_errors(binding)]


def test_what_keeps_the_rules_is_accepted() -> None:
    assert policy_fields() == []
    assert binding_fields() == []
    assert binding_fields(validation_actions=("Deny", "Audit")) == []


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"match_constraints": None}, ["spec.matchConstraints"]),
        ({"match_constraints": MatchResources()}, ["spec.matchConstraints.resourceRules"]),
        ({"failure_policy": "Odd"}, ["spec.failurePolicy"]),
        ({"validations": ()}, ["spec.validations", "spec.auditAnnotations"]),
        ({"validations": (Validation(expression=" "),)}, ["spec.validations[0].expression"]),
        ({"validations": (Validation(expression="object."),)}, ["spec.validations[0].expression"]),
        ({"validations": (Validation(expression="1"),)}, ["spec.validations[0].expression"]),
        ({"validations": (Validation(expression="true", reason="Odd"),)}, ["spec.validations[0].reason"]),
        ({"param_kind": ParamKind()}, ["spec.paramKind.apiVersion", "spec.paramKind.kind"]),
        ({"variables": (Variable(expression="1"),)}, ["spec.variables[0].name"]),
        (
            {"match_conditions": (MatchCondition(name="a", expression="true"),) * 2},
            ["spec.matchConditions[1].name"],
        ),
    ],
)
def test_a_policy_that_breaks_the_rules_is_refused(changes: dict[str, Any], fields: list[str]) -> None:
    assert policy_fields(**changes) == fields


def test_expressions_are_compiled_whatever_else_is_wrong() -> None:
    wrong = {"validations": (Validation(expression="object."),), "failure_policy": "Odd"}
    assert policy_fields(**wrong) == ["spec.failurePolicy", "spec.validations[0].expression"]


def test_a_policy_has_64_match_conditions_at_most() -> None:
    many = tuple(MatchCondition(name=f"c{number}", expression="true") for number in range(65))
    assert policy_fields(match_conditions=many) == ["spec.matchConditions"]
    assert policy_fields(match_conditions=many[:64]) == []


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"policy_name": ""}, ["spec.policyName"]),
        ({"validation_actions": ()}, ["spec.validationActions"]),
        ({"validation_actions": ("Deny", "Deny")}, ["spec.validationActions[1]"]),
        ({"validation_actions": ("Deny", "Warn")}, ["spec.validationActions"]),
        ({"validation_actions": ("Odd",)}, ["spec.validationActions[0]"]),
        ({"param_ref": ParamRef(name="a")}, ["spec.paramRef.parameterNotFoundAction"]),
        ({"param_ref": ParamRef(parameter_not_found_action="Deny")}, ["spec.paramRef"]),
        (
            {"param_ref": ParamRef(name="a", selector=LabelSelector(), parameter_not_found_action="Deny")},
            ["spec.paramRef.name", "spec.paramRef.selector"],
        ),
    ],
)
def test_a_binding_that_breaks_the_rules_is_refused(changes: dict[str, Any], fields: list[str]) -> None:
    assert binding_fields(**changes) == fields
