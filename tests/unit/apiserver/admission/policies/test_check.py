"""Policies in CEL: selection of requests, variables, and actions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.admissionregistration_v1 import (
    AuditAnnotation,
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
)
from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client.resources import CONFIGMAPS, RESOURCECLAIMS, RESOURCESLICES, resource_ref
from tests.running import run_with
from tests.unit.apiserver.asgi import ASGIClient
from tests.unit.apiserver.guarded import Guarded, claim, guarded, refused, resource_slice, rule, user

POLICIES = resource_ref(ValidatingAdmissionPolicy, "validatingadmissionpolicies", namespaced=False)
BINDINGS = resource_ref(ValidatingAdmissionPolicyBinding, "validatingadmissionpolicybindings", namespaced=False)


def rules(resources: str = "configmaps", group: str = "", operations: str = "CREATE UPDATE") -> MatchResources:
    found = NamedRuleWithOperations(
        api_groups=(group,),
        api_versions=("v1",),
        resources=tuple(resources.split()),
        operations=tuple(operations.split()),
    )
    return MatchResources(resource_rules=(found,))


def policy(expression: str, **more: Any) -> ValidatingAdmissionPolicy:
    validation = Validation(expression=expression, message=more.pop("message", ""), reason=more.pop("reason", None))
    spec = {"match_constraints": rules(), "validations": (validation,), **more}
    return ValidatingAdmissionPolicy(metadata=ObjectMeta(name="p"), spec=ValidatingAdmissionPolicySpec(**spec))


async def install(api: Guarded, made: ValidatingAdmissionPolicy, *actions: str, **binding: Any) -> None:
    await api.admin.resource(POLICIES).create(made)
    spec = ValidatingAdmissionPolicyBindingSpec(policy_name="p", validation_actions=actions or ("Deny",), **binding)
    await api.admin.resource(BINDINGS).create(
        ValidatingAdmissionPolicyBinding(metadata=ObjectMeta(name="b"), spec=spec)
    )


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


@pytest.mark.parametrize(
    ("reason", "code"), [(None, 422), ("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)]
)
@run_with(guarded)
async def test_a_denial_says_which_policy_and_has_the_reasons_code(
    api: Guarded, *, reason: str | None, code: int
) -> None:
    await install(api, policy("size(object.data) < 2", message="too much", reason=reason))
    maps = api.admin.resource(CONFIGMAPS, "default")
    await maps.create(config_map("a", x="1"))
    with pytest.raises(StatusError) as caught:
        await maps.create(config_map("b", x="1", y="2"))
    text = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too much"
    assert caught.value.code == code
    assert caught.value.status.message == f'configmaps "b" is forbidden: {text}'
    assert [cause.message for cause in caught.value.causes] == [text]


@run_with(guarded)
async def test_a_policy_counts_only_while_it_is_bound(api: Guarded) -> None:
    await api.admin.resource(POLICIES).create(policy("false"))
    maps = api.admin.resource(CONFIGMAPS, "default")
    await maps.create(config_map("a"))
    await api.admin.resource(POLICIES).delete("p")
    await install(api, policy("false"))
    await refused(maps.create(config_map("b")), 422)
    await api.admin.resource(BINDINGS).delete("b")
    await maps.create(config_map("b"))


@run_with(guarded)
async def test_a_policy_that_comes_to_name_another_resource_is_asked_about_it(api: Guarded) -> None:
    await install(api, policy("false", match_constraints=rules("secrets")))
    await api.admin.resource(CONFIGMAPS, "default").create(config_map("a"))
    found = await api.admin.resource(POLICIES).get("p")
    await api.admin.resource(POLICIES).update(
        replace(found, spec=replace(found.spec, match_constraints=rules("secrets configmaps")))
    )
    await refused(api.admin.resource(CONFIGMAPS, "default").create(config_map("b")), 422)


@run_with(guarded)
async def test_deletions_show_the_old_object_alone(api: Guarded) -> None:
    made = policy("object == null && oldObject.data.locked != 'yes'", match_constraints=rules(operations="DELETE"))
    await install(api, made)
    maps = api.admin.resource(CONFIGMAPS, "default")
    for name, locked in (("open", "no"), ("shut", "yes")):
        await maps.create(config_map(name, locked=locked))
    await maps.delete("open")
    await refused(maps.delete("shut"), 422)


@run_with(guarded)
async def test_conditions_and_selectors_choose(api: Guarded) -> None:
    condition = MatchCondition("not-admin", "!('system:masters' in request.userInfo.groups)")
    await install(api, policy("false", match_conditions=(condition,)))
    await api.role("author", rule("create", "configmaps"))
    await api.bind("author", user("alice"))
    await api.admin.resource(CONFIGMAPS, "default").create(config_map("a"))
    await refused(api.of("alice").resource(CONFIGMAPS, "default").create(config_map("b")), 422)
    home = LabelSelector(match_labels={"kubernetes.io/metadata.name": "kube-public"})
    binding = await api.admin.resource(BINDINGS).get("b")
    spec = replace(binding.spec, match_resources=MatchResources(namespace_selector=home))
    await api.admin.resource(BINDINGS).update(replace(binding, spec=spec))
    await api.of("alice").resource(CONFIGMAPS, "default").create(config_map("b"))
    await refused(api.of("alice").resource(CONFIGMAPS, "kube-public").create(config_map("b")), 422)


@run_with(guarded)
async def test_parameters_come_from_the_bindings_objects(api: Guarded) -> None:
    made = policy(
        "size(object.data) <= int(params.data.most)",
        param_kind=ParamKind("v1", "ConfigMap"),
        match_constraints=rules("configmaps"),
        match_conditions=(MatchCondition("others", "object.metadata.name != 'limits'"),),
    )
    await install(api, made, param_ref=ParamRef(name="limits", parameter_not_found_action="Deny"))
    maps = api.admin.resource(CONFIGMAPS, "default")
    message = await refused(maps.create(config_map("a")), 422)
    assert message.endswith(
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    await api.admin.resource(BINDINGS).delete("b")
    await maps.create(config_map("limits", most="1"))
    spec = ValidatingAdmissionPolicyBindingSpec(
        policy_name="p",
        validation_actions=("Deny",),
        param_ref=ParamRef(name="limits", parameter_not_found_action="Deny"),
    )
    await api.admin.resource(BINDINGS).create(
        ValidatingAdmissionPolicyBinding(metadata=ObjectMeta(name="b"), spec=spec)
    )
    await maps.create(config_map("a", x="1"))
    await refused(maps.create(config_map("b", x="1", y="2")), 422)


@run_with(guarded)
async def test_an_expression_may_ask_what_the_user_may_do(api: Guarded) -> None:
    asked = "authorizer.group('').resource('secrets').namespace(object.metadata.namespace).check('get').allowed()"
    await install(api, policy(asked))
    await api.role("author", rule("create", "configmaps"))
    await api.bind("author", user("alice"))
    await api.admin.resource(CONFIGMAPS, "default").create(config_map("a"))
    await refused(api.of("alice").resource(CONFIGMAPS, "default").create(config_map("b")), 422)


@run_with(guarded)
async def test_what_goes_wrong_follows_the_failure_policy(api: Guarded) -> None:
    await install(api, policy("object.data.none == 'a'", failure_policy="Fail"))
    maps = api.admin.resource(CONFIGMAPS, "default")
    message = await refused(maps.create(config_map("a")), 422)
    assert "resulted in error: no such key: data" in message
    stored = await api.admin.resource(POLICIES).get("p")
    lenient = replace(stored, spec=replace(stored.spec, failure_policy="Ignore"))
    await api.admin.resource(POLICIES).update(lenient)
    await maps.create(config_map("a"))


def test_audit_annotations_are_published(tmp_path: Path) -> None:
    """Writes over HTTP are what the audit log sees."""

    async def body(api: Guarded) -> None:
        annotation = AuditAnnotation(key="size", value_expression="string(size(object.data))")
        await install(api, policy("false", audit_annotations=(annotation,)), "Audit")
        api.server.context.static_tokens.add({"sesame": UserInfo("admin", ("system:masters",))})
        made = {"metadata": {"name": "a"}, "data": {"x": "1"}}
        answer = await ASGIClient(api.server)("POST", "/api/v1/namespaces/default/configmaps", made)
        assert answer.status == 201

    guarded(body, audit_log=tmp_path / "audit.log")
    (event,) = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert event["annotations"]["p/size"] == "1"
    (failure,) = json.loads(event["annotations"]["validation.policy.admission.k8s.io/validation_failure"])
    assert (failure["policy"], failure["binding"], failure["validationActions"]) == ("p", "b", ["Audit"])


@run_with(lambda test: guarded(test, serve=("resource.k8s.io/v1beta1",)))
async def test_a_policy_in_another_version_sees_the_object_in_that_version(api: Guarded) -> None:
    other = NamedRuleWithOperations(
        api_groups=("resource.k8s.io",),
        api_versions=("v1beta1",),
        resources=("resourceclaims",),
        operations=("CREATE",),
    )
    seen = "object.apiVersion == 'resource.k8s.io/v1beta1' && object.spec.devices.requests[0].deviceClassName == 'gpu'"
    await install(api, policy(seen, match_constraints=MatchResources(resource_rules=(other,))))
    claims = api.admin.resource(RESOURCECLAIMS, "default")
    await claims.create(claim("a"))
    await refused(claims.create(claim("b", device_class="other")), 422)


@run_with(guarded)
async def test_a_driver_is_kept_to_its_own_node_and_name(api: Guarded) -> None:
    """The policy that ``cathedra up`` installs for its driver."""
    from cathedra.cluster.identity.permissions import driver_user, install_driver_permissions

    await install_driver_permissions(api.admin, "gpu.example.com")
    await install_driver_permissions(api.admin, "gpu.example.com")
    who = driver_user("gpu.example.com", "n1")
    slices = api.of(who.name, *who.groups, extra=who.extra).resource(RESOURCESLICES)
    await slices.create(resource_slice("mine", on="n1"))
    message = await refused(slices.create(resource_slice("theirs", on="n2")), 422)
    assert message.endswith("this user running on node 'n1' may not modify resourceslices on node 'n2'")
    message = await refused(slices.create(resource_slice("all")), 422)
    assert message.endswith("this user running on node 'n1' may not modify cluster resourceslices")
    of_another = resource_slice("disguised", on="n1")
    of_another = replace(of_another, spec=replace(of_another.spec, driver="nic.example.com"))
    message = await refused(slices.create(of_another), 422)
    assert message.endswith(
        "this user may only modify resourceslices of driver 'gpu.example.com', not of driver 'nic.example.com'"
    )
    await api.admin.resource(RESOURCESLICES).create(of_another)
    assert "may only modify" in await refused(slices.delete("disguised"), 422)
    unbound = {"authentication.kubernetes.io/credential-id": ("JTI=1",)}
    nobody = api.of(who.name, *who.groups, extra=unbound).resource(RESOURCESLICES)
    assert "no node association found for user" in await refused(nobody.delete("mine"), 422)
