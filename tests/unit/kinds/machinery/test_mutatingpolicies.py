"""Mutating admission policies: their versions by release, defaults and table."""

from __future__ import annotations

import pytest

from cathedra.api.core.admissionregistration_v1 import (
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    MutatingAdmissionPolicySpec,
    NamedRuleWithOperations,
    ParamKind,
    ParamRef,
)
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.machinery.mutatingpolicies import (
    mutating_policy_binding_cells,
    mutating_policy_binding_definition,
    mutating_policy_cells,
    mutating_policy_definition,
)
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates

CONTEXT = RequestContext(FeatureGates.for_release(), 0.0)


@pytest.mark.parametrize(
    ("release", "versions"),
    [
        ("1.37", ["v1", "v1beta1", "v1alpha1"]),
        ("1.36", ["v1", "v1beta1", "v1alpha1"]),
        ("1.34", ["v1beta1", "v1alpha1"]),
        ("1.32", ["v1alpha1"]),
    ],
)
def test_each_release_has_its_versions_and_only_the_stable_one_is_on(release: str, versions: list[str]) -> None:
    gates = FeatureGates.for_release(release, {"MutatingAdmissionPolicy": True})
    for defined in (mutating_policy_definition(gates), mutating_policy_binding_definition(gates)):
        assert [version.name for version in defined.versions] == versions
        assert [version.name for version in defined.versions if version.served_by_default] == [
            name for name in versions if name == "v1"
        ]


@pytest.mark.parametrize(("release", "served"), [("1.31", False), ("1.35", False), ("1.36", True), ("1.37", True)])
def test_the_kind_is_there_from_its_stable_release_on(release: str, served: bool) -> None:
    kinds = {kind.plural for kind in all_definitions(FeatureGates.for_release(release))}
    assert ("mutatingadmissionpolicies" in kinds) is served


def test_a_policy_matches_by_equivalence_and_refuses_on_errors() -> None:
    constraints = MatchResources(resource_rules=(NamedRuleWithOperations(resources=("pods",)),))
    made = MutatingAdmissionPolicy(spec=MutatingAdmissionPolicySpec(match_constraints=constraints))
    spec = mutating_policy_definition(CONTEXT.gates).strategy.default(made, CONTEXT).spec
    assert spec.failure_policy == "Fail"
    assert spec.match_constraints is not None
    assert spec.match_constraints.match_policy == "Equivalent"
    assert spec.match_constraints.object_selector == LabelSelector()
    assert spec.match_constraints.resource_rules[0].scope == "*"


def test_a_binding_without_rules_is_left_alone() -> None:
    strategy = mutating_policy_binding_definition(CONTEXT.gates).strategy
    plain = MutatingAdmissionPolicyBinding()
    assert strategy.default(plain, CONTEXT) == plain
    spec = MutatingAdmissionPolicyBindingSpec(match_resources=MatchResources())
    matched = strategy.default(MutatingAdmissionPolicyBinding(spec=spec), CONTEXT).spec.match_resources
    assert matched is not None
    assert matched.match_policy == "Equivalent"


def test_the_tables_name_parameters() -> None:
    policy = MutatingAdmissionPolicy(
        metadata=ObjectMeta(name="p"),
        spec=MutatingAdmissionPolicySpec(param_kind=ParamKind(api_version="v1", kind="ConfigMap")),
    )
    assert mutating_policy_cells(policy, 0.0)[:3] == ["p", 0, "v1/ConfigMap"]
    spec = MutatingAdmissionPolicyBindingSpec(policy_name="p", param_ref=ParamRef(name="x", namespace="n"))
    binding = MutatingAdmissionPolicyBinding(metadata=ObjectMeta(name="b"), spec=spec)
    assert mutating_policy_binding_cells(binding, 0.0)[:3] == ["b", "p", "n/x"]
