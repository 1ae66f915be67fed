"""Warnings about expressions in the status of a validating admission policy."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.admissionregistration_v1 import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyStatus
from cathedra.api.struct import from_dict, replace
from cathedra.client.resources import resource_ref
from cathedra.controllers.administration.policystatus import ValidatingAdmissionPolicyStatusController
from tests.running import run_with
from tests.unit.controllers.world import World, play

POLICIES = resource_ref(ValidatingAdmissionPolicy, "validatingadmissionpolicies", namespaced=False)


def policy(expression: str, *, resources: tuple[str, ...] = ("deployments",), group: str = "apps", **spec: Any) -> Any:
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": list(resources)}
    return from_dict(
        ValidatingAdmissionPolicy,
        {
            "metadata": {"name": "p"},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": expression}],
                **spec,
            },
        },
    )


def checked(made: ValidatingAdmissionPolicy) -> ValidatingAdmissionPolicyStatus:
    """The status that a policy gets."""
    found: list[ValidatingAdmissionPolicyStatus] = []

    async def story(world: World) -> None:
        await world.of(POLICIES).create(made)
        await world.quiet()
        found.append((await world.of(POLICIES).get("p")).status)

    play(ValidatingAdmissionPolicyStatusController, story)
    return found[0]


def texts(made: ValidatingAdmissionPolicy) -> list[tuple[str, str]]:
    typing = checked(made).type_checking
    assert typing is not None
    return [(one.field_ref, one.warning) for one in typing.expression_warnings]


def test_a_policy_without_faults_is_observed() -> None:
    status = checked(policy("object.spec.replicas > 1"))
    assert status.observed_generation == 1
    assert status.type_checking is not None
    assert status.type_checking.expression_warnings == ()


def test_a_field_that_the_kind_does_not_have_is_warned_of() -> None:
    ((field, text),) = texts(policy("object.replicas > 1", resources=("deployments", "deployments/scale", "nothing")))
    assert field == "spec.validations[0].expression"
    assert text.startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n")


def test_kinds_of_the_core_group_and_parameters_have_schemas_too() -> None:
    ((_, text),) = texts(
        policy(
            "object.spec.hostNetwork && params.data == 1",
            resources=("pods",),
            group="",
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        )
    )
    assert text.startswith("/v1, Kind=Pod: ERROR: <input>:1:40: found no matching overload for '_==_' applied to")


def test_wildcards_and_unknown_groups_are_not_checked() -> None:
    assert texts(policy("object.none == 1", group="*")) == []
    assert texts(policy("object.none == 1", resources=("*",))) == []
    assert texts(policy("object.none == 1", group="none.example.com")) == []


@run_with(lambda test: play(ValidatingAdmissionPolicyStatusController, test))
async def test_a_change_is_checked_again_and_a_status_is_not(world: World) -> None:
    policies = world.of(POLICIES)
    made = await policies.create(policy("object.none == 1"))
    await world.quiet()
    first = await policies.get("p")
    managers = {entry.manager: entry.subresource for entry in first.metadata.managed_fields}
    assert managers == {"tester": "", "validatingadmissionpolicy-status-controller": "status"}
    await policies.update(replace(first, spec=replace(made.spec, validations=policy("true").spec.validations)))
    await world.quiet()
    second = await policies.get("p")
    assert second.status.observed_generation == 2
    assert second.status.type_checking is not None
    assert second.status.type_checking.expression_warnings == ()
