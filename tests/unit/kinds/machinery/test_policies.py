"""Validating admission policies and bindings."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.admissionregistration_v1 import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.kinds.machinery.policies import policy_binding_definition
from tests.unit.kinds.objects import context, created, defaulted, row, updated

POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
MATCHED = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


def test_a_policy_that_cannot_be_evaluated_refuses() -> None:
    assert defaulted(POLICIES, ValidatingAdmissionPolicy()).spec.failure_policy == "Fail"
    ignoring = from_dict(ValidatingAdmissionPolicy, {"spec": {"failurePolicy": "Ignore"}})
    assert defaulted(POLICIES, ignoring).spec.failure_policy == "Ignore"


@pytest.mark.parametrize(
    ("plural", "kind", "field"),
    [
        (POLICIES, ValidatingAdmissionPolicy, "matchConstraints"),
        (BINDINGS, ValidatingAdmissionPolicyBinding, "matchResources"),
    ],
)
def test_what_is_matched_is_matched_everywhere_and_in_every_form(plural: str, kind: Any, field: str) -> None:
    rules = {"resourceRules": [{}, {"scope": "Namespaced"}], "excludeResourceRules": [{}]}
    spec = to_dict(defaulted(plural, from_dict(kind, {"spec": {field: rules}})))["spec"]
    assert spec[field] == {
        **MATCHED,
        "resourceRules": [{"scope": "*"}, {"scope": "Namespaced"}],
        "excludeResourceRules": [{"scope": "*"}],
    }
    assert field not in to_dict(defaulted(plural, kind())).get("spec", {})


def test_a_row_counts_validations_and_names_the_kind_of_parameters() -> None:
    spec = {"validations": [{"expression": "true"}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    found = row(POLICIES, from_dict(ValidatingAdmissionPolicy, {"spec": spec}))
    assert (found["Validations"], found["ParamKind"]) == (1, "v1/ConfigMap")
    assert row(POLICIES, ValidatingAdmissionPolicy())["ParamKind"] == "<unset>"


@pytest.mark.parametrize(
    ("reference", "shown"),
    [
        (None, "<unset>"),
        ({"name": "a", "namespace": "n"}, "n/a"),
        ({"name": "a"}, "a"),
        ({"selector": {}}, "*"),
    ],
)
def test_a_binding_names_its_parameters(reference: dict[str, Any] | None, shown: str) -> None:
    spec = {"policyName": "p", **({"paramRef": reference} if reference is not None else {})}
    found = row(BINDINGS, from_dict(ValidatingAdmissionPolicyBinding, {"spec": spec}))
    assert (found["PolicyName"], found["ParamRef"]) == ("p", shown)


def test_the_generation_of_a_binding_counts_changes_of_its_spec() -> None:
    strategy = policy_binding_definition().strategy
    old, _ = created(strategy, from_dict(ValidatingAdmissionPolicyBinding, {"spec": {"policyName": "p"}}), context())
    assert old.metadata.generation == 1
    new = replace(old, spec=replace(old.spec, policy_name="q"))
    assert updated(strategy, new, old, context())[0].metadata.generation == 2
    labelled = replace(old, metadata=replace(old.metadata, labels={"a": "b"}))
    assert updated(strategy, labelled, old, context())[0].metadata.generation == 1
