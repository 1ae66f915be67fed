"""What is wrong with mutating policies and their bindings."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.admissionregistration_v1 import (
    ApplyConfiguration,
    JSONPatch,
    MatchResources,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    Mutation,
    ParamKind,
    ParamRef,
)
from cathedra.apiserver.admission.policies.mutatingerrors import mutating_binding_errors, mutating_policy_errors
from tests.unit.apiserver.admission.policies.test_mutating import apply, labelled, operations, policy

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
