"""Mutating admission policies and their bindings, in the versions that each release has."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from msgspec.structs import replace as but

from cathedra.api.core import admissionregistration_v1 as v1
from cathedra.api.core import admissionregistration_v1alpha1 as v1alpha1
from cathedra.api.core import admissionregistration_v1beta1 as v1beta1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.scheme import kind_of
from cathedra.api.struct import replace, reshape
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition, VersionDefinition
from cathedra.kinds.machinery.policies import match_resources, param_ref_cell
from cathedra.kinds.strategies import CountedStrategy
from cathedra.releases import FeatureGates
from cathedra.releases.served import deprecation_warning, versions

T = TypeVar("T", bound=KubeObject)
_GROUP: Final = "admissionregistration.k8s.io"
_GATE: Final = "MutatingAdmissionPolicy"
POLICY_COLUMNS: Final = (
    NAME,
    Column("Mutations", type="integer", description="How many changes it makes."),
    Column("ParamKind", description="The kind of its parameters."),
    AGE,
)
BINDING_COLUMNS: Final = (
    NAME,
    Column("PolicyName", description="The policy that is put in force."),
    Column("ParamRef", description="The parameters it is given."),
    AGE,
)


def default_mutating_policy(policy: v1.MutatingAdmissionPolicy) -> v1.MutatingAdmissionPolicy:
    """Return the object with its defaults: a policy that refuses when it cannot be applied, and matches by
    equivalence."""
    spec = policy.spec
    changes: dict[str, Any] = absent(spec, failure_policy="Fail")
    if spec.match_constraints is not None:
        changes["match_constraints"] = match_resources(spec.match_constraints)
    return replace(policy, spec=replace(spec, **changes))


def default_mutating_policy_binding(binding: v1.MutatingAdmissionPolicyBinding) -> v1.MutatingAdmissionPolicyBinding:
    """Return the object with its defaults: a binding that matches by equivalence."""
    matched = binding.spec.match_resources
    if matched is None:
        return binding
    return replace(binding, spec=replace(binding.spec, match_resources=match_resources(matched)))


def mutating_policy_cells(policy: v1.MutatingAdmissionPolicy, now: float) -> list[Any]:
    """Return the cells of a MutatingAdmissionPolicy."""
    kind = policy.spec.param_kind
    return [
        policy.metadata.name,
        len(policy.spec.mutations),
        f"{kind.api_version}/{kind.kind}" if kind else "<unset>",
        age(policy.metadata.creation_timestamp, now),
    ]


def mutating_policy_binding_cells(binding: v1.MutatingAdmissionPolicyBinding, now: float) -> list[Any]:
    """Return the cells of a MutatingAdmissionPolicyBinding."""
    created = age(binding.metadata.creation_timestamp, now)
    return [binding.metadata.name, binding.spec.policy_name, param_ref_cell(binding.spec.param_ref), created]


def mutating_policy_definition(gates: FeatureGates) -> ResourceDefinition[v1.MutatingAdmissionPolicy]:
    """Return the definition of mutatingadmissionpolicies."""
    defined = BuiltinKind(
        v1.MutatingAdmissionPolicy,
        "mutatingadmissionpolicies",
        namespaced=False,
        strategy=CountedStrategy(default_mutating_policy),
        table=(POLICY_COLUMNS, mutating_policy_cells),
        categories=("api-extensions",),
        gate=_GATE,
    ).definition()
    kinds = (v1.MutatingAdmissionPolicy, v1beta1.MutatingAdmissionPolicy, v1alpha1.MutatingAdmissionPolicy)
    return but(defined, versions=_versions(gates, kinds))


def mutating_policy_binding_definition(gates: FeatureGates) -> ResourceDefinition[v1.MutatingAdmissionPolicyBinding]:
    """Return the definition of mutatingadmissionpolicybindings."""
    defined = BuiltinKind(
        v1.MutatingAdmissionPolicyBinding,
        "mutatingadmissionpolicybindings",
        namespaced=False,
        strategy=CountedStrategy(default_mutating_policy_binding),
        table=(BINDING_COLUMNS, mutating_policy_binding_cells),
        categories=("api-extensions",),
        gate=_GATE,
    ).definition()
    kinds = (
        v1.MutatingAdmissionPolicyBinding,
        v1beta1.MutatingAdmissionPolicyBinding,
        v1alpha1.MutatingAdmissionPolicyBinding,
    )
    return but(defined, versions=_versions(gates, kinds))


def _versions(gates: FeatureGates, kinds: tuple[type[KubeObject], ...]) -> tuple[VersionDefinition, ...]:
    """Return the versions that the release knows, stable ones first; only the stable one is on by default."""
    hub = kinds[0]
    made = (VersionDefinition("v1", hub), *(_like(hub, kind, gates.release) for kind in kinds[1:]))
    known = versions(gates.release, _GROUP, hub.__name__)
    return tuple(version for version in made if version.name in known)


def _like(hub: type[T], kind: type[KubeObject], release: str) -> VersionDefinition:
    """Return a version with the hub's shape and a type of its own, which is not served by default."""
    version = kind_of(kind).version
    return VersionDefinition(
        version,
        kind,
        to_hub=lambda obj: reshape(obj, hub),
        from_hub=lambda obj: reshape(obj, kind),
        served_by_default=False,
        deprecation_warning=deprecation_warning(release, _GROUP, version, hub.__name__),
    )
