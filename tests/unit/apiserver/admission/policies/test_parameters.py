"""Parameters of policies: their author must be allowed to read them."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.admissionregistration_v1 import (
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
)
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.struct import replace
from tests.running import run_with
from tests.unit.apiserver.admission.policies import test_check as validating
from tests.unit.apiserver.admission.policies import test_mutating as mutating
from tests.unit.apiserver.guarded import Guarded, guarded, refused, rule, user

SECRET = ParamKind("v1", "Secret")
GROUP = "admissionregistration.k8s.io"
ALICE = "&{alice  [system:authenticated] map[]}"


def validating_policy(kind: ParamKind | None = SECRET) -> Any:
    """A policy that shows its parameter in a refusal."""
    return validating.policy("false", param_kind=kind)


def mutating_policy(kind: ParamKind | None = SECRET) -> Any:
    """A policy that copies its parameter into the object, if it has one."""
    value = "'none'" if kind is None else "string(params.data.key)"
    return mutating.policy(mutating.labelled("a", value), param_kind=kind)


def validating_binding(ref: ParamRef | None) -> Any:
    """A binding of the policy to parameters."""
    spec = ValidatingAdmissionPolicyBindingSpec(policy_name="p", validation_actions=("Deny",), param_ref=ref)
    return ValidatingAdmissionPolicyBinding(metadata=ObjectMeta(name="b"), spec=spec)


def mutating_binding(ref: ParamRef | None) -> Any:
    """The same of a mutating policy."""
    spec = MutatingAdmissionPolicyBindingSpec(policy_name="p", param_ref=ref)
    return MutatingAdmissionPolicyBinding(metadata=ObjectMeta(name="b"), spec=spec)


def named(name: str = "s", namespace: str = "default") -> ParamRef:
    """A reference by name."""
    return ParamRef(name=name, namespace=namespace, parameter_not_found_action="Deny")


SELECTED = ParamRef(
    selector=LabelSelector(match_labels={"a": "b"}), namespace="default", parameter_not_found_action="Deny"
)
SORTS = pytest.mark.parametrize(
    ("policies", "make", "bindings", "bound"),
    [
        (validating.POLICIES, validating_policy, validating.BINDINGS, validating_binding),
        (mutating.POLICIES, mutating_policy, mutating.BINDINGS, mutating_binding),
    ],
)


async def author(api: Guarded) -> Any:
    """Alice may write policies and bindings and nothing else."""
    kinds = "validatingadmissionpolicies validatingadmissionpolicybindings"
    kinds += " mutatingadmissionpolicies mutatingadmissionpolicybindings"
    await api.role("author", rule("create update get", kinds, GROUP))
    await api.bind("author", user("alice"))
    return api.of("alice")


@SORTS
@run_with(guarded)
async def test_a_policys_author_must_be_allowed_to_get_all_parameters(
    api: Guarded, *, policies: Any, make: Any, bindings: Any, bound: Any
) -> None:
    alice = await author(api)
    text = await refused(alice.resource(policies).create(make()), 422)
    assert text.endswith(
        f'"p" is invalid: spec.paramKind: Forbidden: user {ALICE} must have "get" permission on all objects of the '
        "referenced paramKind (kind=Secret, apiVersion=v1)"
    )
    await alice.resource(policies).create(make(None))
    found = await alice.resource(policies).get("p")
    await refused(alice.resource(policies).update(replace(found, spec=replace(found.spec, param_kind=SECRET))), 422)
    await api.role("reader", rule("get", "secrets"))
    await api.bind("reader", user("alice"))
    await alice.resource(policies).update(replace(found, spec=replace(found.spec, param_kind=SECRET)))


@SORTS
@run_with(guarded)
async def test_a_right_to_one_object_is_not_the_right_to_all(
    api: Guarded, *, policies: Any, make: Any, bindings: Any, bound: Any
) -> None:
    alice = await author(api)
    await api.role("one", rule("get", "secrets", names="s"))
    await api.bind("one", user("alice"))
    await api.role("here", rule("get", "secrets"), namespace="default")
    await api.bind("here", user("alice"), namespace="default", kind="Role")
    await refused(alice.resource(policies).create(make()), 422)


@SORTS
@run_with(guarded)
async def test_a_policy_that_keeps_its_parameters_may_be_changed(
    api: Guarded, *, policies: Any, make: Any, bindings: Any, bound: Any
) -> None:
    alice = await author(api)
    await api.admin.resource(policies).create(make())
    found = await alice.resource(policies).get("p")
    changed = replace(found, spec=replace(found.spec, failure_policy="Ignore"))
    found = await alice.resource(policies).update(changed)
    await refused(
        alice.resource(policies).update(
            replace(found, spec=replace(found.spec, param_kind=ParamKind("v1", "ConfigMap")))
        ),
        422,
    )


@SORTS
@run_with(guarded)
async def test_a_bindings_author_must_be_allowed_to_get_the_parameter(
    api: Guarded, *, policies: Any, make: Any, bindings: Any, bound: Any
) -> None:
    alice = await author(api)
    await api.admin.resource(policies).create(make())
    text = await refused(alice.resource(bindings).create(bound(named())), 422)
    words = (
        f'user {ALICE} does not have "get" permission'
        if bound is validating_binding
        else f'user get does not have "{ALICE}" permission'
    )
    assert text.endswith(f"spec.paramRef: Forbidden: {words} on the object referenced by paramRef")
    await api.role("one", rule("get", "secrets", names="s"), namespace="default")
    await api.bind("one", user("alice"), namespace="default", kind="Role")
    await refused(alice.resource(bindings).create(bound(named("other"))), 422)
    await refused(alice.resource(bindings).create(bound(named(namespace=""))), 422)
    await alice.resource(bindings).create(bound(named()))
    found = await alice.resource(bindings).get("b")
    await refused(
        alice.resource(bindings).update(replace(found, spec=replace(found.spec, param_ref=named("other")))), 422
    )


@SORTS
@run_with(guarded)
async def test_what_no_policy_names_takes_the_right_to_everything(
    api: Guarded, *, policies: Any, make: Any, bindings: Any, bound: Any
) -> None:
    alice = await author(api)
    await api.role("reader", rule("get list", "secrets"))
    await api.bind("reader", user("alice"))
    await refused(alice.resource(bindings).create(bound(named())), 422)
    await api.admin.resource(policies).create(make())
    await alice.resource(bindings).create(bound(named()))


@run_with(guarded)
async def test_selected_parameters_of_a_mutating_policy_take_the_right_to_list(api: Guarded) -> None:
    alice = await author(api)
    await api.admin.resource(mutating.POLICIES).create(mutating_policy())
    await api.role("getter", rule("get", "secrets"))
    await api.bind("getter", user("alice"))
    text = await refused(alice.resource(mutating.BINDINGS).create(mutating_binding(SELECTED)), 422)
    assert f'user list does not have "{ALICE}" permission' in text
    await api.role("lister", rule("list", "secrets"))
    await api.bind("lister", user("alice"))
    await alice.resource(mutating.BINDINGS).create(mutating_binding(SELECTED))
