"""Errors in policies and bindings when they are written."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.admissionregistration_v1 import (
    ApplyConfiguration,
    JSONPatch,
    MatchCondition,
    MatchResources,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    Mutation,
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
from cathedra.apiserver.admission.policies.policyerrors import (
    binding_errors,
    mutating_binding_errors,
    mutating_policy_errors,
    policy_errors,
)
from tests.unit.apiserver.admission.policies.test_mutating import apply, labelled, operations, policy

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


BOTH = Mutation(
    patch_type="JSONPatch",
    json_patch=JSONPatch(expression="[]"),
    apply_configuration=ApplyConfiguration(expression="Object{}"),
)


@pytest.mark.parametrize(
    ("mutations", "more", "text"),
    [
        ((), {}, "spec.mutations: Required value: mutations must contain at least one item"),
        ((labelled("a"),), {"reinvocation_policy": ""}, "spec.reinvocationPolicy: Required value"),
        (
            (labelled("a"),),
            {"reinvocation_policy": "Always"},
            'spec.reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never"',
        ),
        ((labelled("a"),), {"match_constraints": None}, "spec.matchConstraints: Required value"),
        (
            (labelled("a"),),
            {"match_constraints": MatchResources()},
            "spec.matchConstraints.resourceRules: Required value",
        ),
        ((labelled("a"),), {"param_kind": ParamKind(kind="K")}, "spec.paramKind.apiVersion: Required value"),
        ((Mutation(),), {}, "spec.mutations[0].patchType: Required value"),
        (
            (Mutation(patch_type="Merge"),),
            {},
            'spec.mutations[0].patchType: Unsupported value: "Merge": '
            'supported values: "ApplyConfiguration", "JSONPatch"',
        ),
        (
            (Mutation(patch_type="JSONPatch"),),
            {},
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
        ),
        (
            (BOTH,),
            {},
            'spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": '
            "must not be specified when patchType is JSONPatch",
        ),
        (
            (apply(" "),),
            {},
            "spec.mutations[0].applyConfiguration.expression: Required value: expression is not specified",
        ),
        (
            (operations("1"),),
            {},
            'spec.mutations[0].jsonPatch.expression: Invalid value: "1": must evaluate to list(JSONPatch) but got int',
        ),
    ],
)
def test_a_bad_policy_is_refused(mutations: tuple[Mutation, ...], more: dict[str, Any], text: str) -> None:
    assert [str(error) for error in mutating_policy_errors(policy(*mutations, **more))] == [text]


def test_a_good_policy_is_accepted() -> None:
    assert not mutating_policy_errors(policy(labelled("a")))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (MutatingAdmissionPolicyBindingSpec(), "spec.policyName: Required value"),
        (
            MutatingAdmissionPolicyBindingSpec(
                policy_name="p", param_ref=ParamRef(name="x", parameter_not_found_action="Warn")
            ),
            'spec.paramRef.parameterNotFoundAction: Unsupported value: "Warn": supported values: "Deny", "Allow"',
        ),
    ],
)
def test_a_bad_binding_is_refused(spec: MutatingAdmissionPolicyBindingSpec, text: str) -> None:
    assert [str(error) for error in mutating_binding_errors(MutatingAdmissionPolicyBinding(spec=spec))] == [text]


def test_errors_come_condition_by_condition_with_names_last() -> None:
    conditions = (
        MatchCondition(name="a b", expression="true"),
        MatchCondition(name="x", expression="1"),
        MatchCondition(name="x", expression="true"),
        MatchCondition(name="", expression=""),
    )
    variables = (Variable(name="a-b", expression="1"), Variable(name="c", expression="variables.d"))
    assert policy_fields(match_conditions=conditions, variables=variables) == [
        "spec.matchConditions[0].name",
        "spec.matchConditions[1].expression",
        "spec.matchConditions[2].name",
        "spec.matchConditions[3].expression",
        "spec.matchConditions[3].name",
        "spec.variables[0].name",
        "spec.variables[1].expression",
    ]
