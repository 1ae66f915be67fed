"""Mutating policies in CEL: what they change, in which order, and what a failure does."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import admissionregistration_v1beta1 as v1beta1
from cathedra.api.core.admissionregistration_v1 import (
    ApplyConfiguration,
    JSONPatch,
    MatchCondition,
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    MutatingAdmissionPolicySpec,
    Mutation,
    ParamKind,
    ParamRef,
)
from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.status import StatusError
from cathedra.client.resources import CONFIGMAPS, PODS, resource_ref
from tests.running import run_with
from tests.unit.apiserver.admission.policies.test_check import config_map, rules
from tests.unit.apiserver.guarded import Guarded, guarded, pod, refused

POLICIES = resource_ref(MutatingAdmissionPolicy, "mutatingadmissionpolicies", namespaced=False)
BINDINGS = resource_ref(MutatingAdmissionPolicyBinding, "mutatingadmissionpolicybindings", namespaced=False)


def apply(expression: str) -> Mutation:
    """A mutation by apply configuration."""
    return Mutation(patch_type="ApplyConfiguration", apply_configuration=ApplyConfiguration(expression=expression))


def operations(expression: str) -> Mutation:
    """A mutation by JSON patch."""
    return Mutation(patch_type="JSONPatch", json_patch=JSONPatch(expression=expression))


def labelled(name: str, value: str = "'yes'") -> Mutation:
    """A mutation that sets a label."""
    return apply(f"Object{{metadata: Object.metadata{{labels: {{'{name}': {value}}}}}}}")


def counted(name: str) -> str:
    """The label's number, and one more."""
    return f"string(int(object.metadata.?labels[?'{name}'].orValue('0')) + 1)"


def policy(*mutations: Mutation, name: str = "p", **more: Any) -> MutatingAdmissionPolicy:
    spec = {"match_constraints": rules(), "mutations": mutations, "reinvocation_policy": "Never", **more}
    return MutatingAdmissionPolicy(metadata=ObjectMeta(name=name), spec=MutatingAdmissionPolicySpec(**spec))


async def install(api: Guarded, made: MutatingAdmissionPolicy, **binding: Any) -> None:
    await api.admin.resource(POLICIES).create(made)
    spec = MutatingAdmissionPolicyBindingSpec(policy_name=made.metadata.name, **binding)
    await api.admin.resource(BINDINGS).create(
        MutatingAdmissionPolicyBinding(metadata=ObjectMeta(name=made.metadata.name), spec=spec)
    )


async def created(api: Guarded, name: str = "a", **data: str) -> ConfigMap:
    return await api.admin.resource(CONFIGMAPS, "default").create(config_map(name, **data))


@run_with(guarded)
async def test_an_apply_configuration_is_merged_into_the_object(api: Guarded) -> None:
    await install(api, policy(labelled("a"), labelled("b", "string(size(object.metadata.labels))")))
    assert (await created(api)).metadata.labels == {"a": "yes", "b": "1"}


@run_with(guarded)
async def test_keyed_lists_are_merged_element_by_element(api: Guarded) -> None:
    sidecar = "Object.spec.initContainers{name: 'mesh', image: 'mesh:1', restartPolicy: 'Always'}"
    mutation = apply(f"Object{{spec: Object.spec{{initContainers: [{sidecar}]}}}}")
    await install(api, policy(mutation, match_constraints=rules("pods")))
    found = await api.admin.resource(PODS, "default").create(pod("p"))
    (mesh,) = found.spec.init_containers
    assert (mesh.name, mesh.restart_policy, mesh.image_pull_policy) == ("mesh", "Always", "IfNotPresent")


@run_with(guarded)
async def test_a_json_patch_is_carried_out(api: Guarded) -> None:
    mutation = operations('[JSONPatch{op: "replace", path: "/data/x", value: "new"}]')
    await install(api, policy(mutation))
    assert (await created(api, x="old")).data == {"x": "new"}


@run_with(guarded)
async def test_a_json_patch_whose_test_fails_changes_nothing(api: Guarded) -> None:
    test = 'JSONPatch{op: "test", path: "/data/x", value: "other"}'
    await install(api, policy(operations(f'[{test}, JSONPatch{{op: "remove", path: "/data/x"}}]')))
    assert (await created(api, x="old")).data == {"x": "old"}


@pytest.mark.parametrize(
    ("mutation", "why"),
    [
        (
            apply("Object{data: Object.data{x: object.data.nothing}}"),
            "expression 'Object{data: Object.data{x: object.data.nothing}}' resulted in error: no such key: nothing",
        ),
        (
            apply("Object{nonsense: 1}"),
            "error applying patch: failed to convert patch object to typed object: "
            ".nonsense: field not declared in schema",
        ),
        (
            apply("Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{uid: 'u'}]}}"),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            ".metadata.ownerReferences[0]",
        ),
        (
            operations('[JSONPatch{op: "remove", path: "/data/y/z"}]'),
            'JSON Patch: remove operation does not apply: doc is missing path: "/data/y/z": missing value',
        ),
    ],
)
@run_with(guarded)
async def test_a_mutation_that_fails_refuses_the_request_or_is_left_out(
    api: Guarded, *, mutation: Mutation, why: str
) -> None:
    await install(api, policy(mutation))
    with pytest.raises(StatusError) as caught:
        await created(api, x="1")
    text = f"policy 'p' with binding 'p' denied request: {why}"
    assert caught.value.code == 403
    assert caught.value.status.reason == "Invalid"
    assert caught.value.status.message.startswith(text)
    assert caught.value.causes[0].message == caught.value.status.message
    await api.admin.resource(POLICIES).delete("p")
    await api.admin.resource(POLICIES).create(policy(mutation, labelled("a"), failure_policy="Ignore"))
    assert (await created(api, x="1")).metadata.labels == {"a": "yes"}


@run_with(guarded)
async def test_an_object_that_cannot_be_read_any_more_is_an_internal_error(api: Guarded) -> None:
    await install(api, policy(operations('[JSONPatch{op: "add", path: "/nonsense", value: 1}]')))
    assert "strict decoding error: unknown field" in await refused(created(api), 500)


@run_with(guarded)
async def test_conditions_and_the_bindings_own_rules_decide_whom_a_policy_concerns(api: Guarded) -> None:
    condition = MatchCondition(name="c", expression="has(object.data) && has(object.data.wanted)")
    await install(api, policy(labelled("a"), match_conditions=(condition,)))
    elsewhere = MatchResources(resource_rules=rules("pods").resource_rules)
    await install(api, policy(labelled("b"), name="q"), match_resources=elsewhere)
    assert not (await created(api, "a")).metadata.labels
    assert (await created(api, "b", wanted="x")).metadata.labels == {"a": "yes"}


@run_with(guarded)
async def test_each_parameter_object_makes_a_change_of_its_own(api: Guarded) -> None:
    maps = api.admin.resource(CONFIGMAPS, "default")
    for name in ("one", "two"):
        await maps.create(ConfigMap(metadata=ObjectMeta(name=name, labels={"param": "yes"})))
    mutation = apply("Object{metadata: Object.metadata{labels: {params.metadata.name: 'yes'}}}")
    made = policy(mutation, param_kind=ParamKind(api_version="v1", kind="ConfigMap"))
    selector = LabelSelector(match_labels={"param": "yes"})
    await install(api, made, param_ref=ParamRef(selector=selector, parameter_not_found_action="Deny"))
    assert (await created(api)).metadata.labels == {"one": "yes", "two": "yes"}
    for name in ("one", "two"):
        await maps.delete(name)
    text = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    assert text in await refused(created(api, "b"))


@run_with(guarded)
async def test_only_who_wants_it_is_asked_again_when_a_later_policy_changed_the_object(api: Guarded) -> None:
    await install(api, policy(labelled("n", counted("n")), name="a", reinvocation_policy="IfNeeded"))
    await install(api, policy(labelled("m", counted("m")), name="b"))
    await install(api, policy(labelled("late"), name="c"))
    assert (await created(api)).metadata.labels == {"n": "2", "m": "1", "late": "yes"}


@run_with(guarded)
async def test_policies_change_no_policies(api: Guarded) -> None:
    await install(api, policy(labelled("a"), match_constraints=rules("*", "admissionregistration.k8s.io")))
    await install(api, policy(labelled("b"), name="q"))
    assert not (await api.admin.resource(POLICIES).get("q")).metadata.labels


@run_with(lambda test: guarded(test, serve=("admissionregistration.k8s.io/v1beta1",)))
async def test_all_versions_of_a_policy_are_one_object(api: Guarded) -> None:
    await install(api, policy(labelled("a")))
    older = resource_ref(v1beta1.MutatingAdmissionPolicy, "mutatingadmissionpolicies", namespaced=False)
    found = await api.admin.resource(older).get("p")
    assert found.spec.mutations[0].apply_configuration is not None
    assert (await created(api)).metadata.labels == {"a": "yes"}
