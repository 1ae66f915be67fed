"""MutatingAdmissionPolicies: the patches that expressions write."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.cel.admission import Input, Mutated, compile_mutations

REQUEST: dict[str, Any] = {
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "operation": "CREATE",
    "name": "p",
    "namespace": "n",
    "userInfo": {"username": "me"},
}
POD = {"metadata": {"name": "p", "labels": {"team": "a"}}, "spec": {"containers": [{"name": "c"}]}}


def apply(expression: str) -> dict[str, Any]:
    """A mutation by apply configuration."""
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def operations(expression: str) -> dict[str, Any]:
    """A mutation by JSON patch."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def mutated(mutation: dict[str, Any], **spec: Any) -> Mutated:
    """Return the result of a policy with this mutation on a pod."""
    return compile_mutations({"mutations": [mutation], **spec}).mutate(0, Input(REQUEST, object=POD))


def errors(mutation: dict[str, Any], **spec: Any) -> list[str]:
    """Return the errors of the creation of the policy."""
    return [str(error) for error in compile_mutations({"mutations": [mutation], **spec}).errors]


def test_an_object_literal_is_an_apply_configuration() -> None:
    found = mutated(apply('Object{metadata: Object.metadata{labels: {"a": object.metadata.labels.team}}}'))
    assert found == Mutated("ApplyConfiguration", {"metadata": {"labels": {"a": "a"}}})


def test_optional_fields_that_are_absent_are_left_out() -> None:
    found = mutated(apply("Object{spec: Object.spec{?x: object.?nothing, ?y: optional.of(1)}}"))
    assert found.patch == {"spec": {"y": 1}}


def test_literals_within_lists_and_maps_are_named_by_the_path_of_fields() -> None:
    found = mutated(
        apply(
            "Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name})}}"
        )
    )
    assert found.patch == {"spec": {"containers": [{"name": "c"}]}}


def test_a_literal_that_is_not_named_by_its_path_is_a_mismatch() -> None:
    found = mutated(apply("Object{spec: Object.status{}}"))
    assert found.error == (
        'type mismatch: unexpected type name "Object.status", expected "Object.spec", '
        "which matches field name path from root Object type"
    )


def test_json_patch_literals_are_operations() -> None:
    found = mutated(
        operations(
            '[JSONPatch{op: "test", path: "/spec", value: null}, JSONPatch{op: "copy", from: "/a", path: "/b"}, '
            'JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b~c"), value: Object.x{y: 2.0}}]'
        )
    )
    assert found.patch == [
        {"op": "test", "path": "/spec", "value": None},
        {"op": "copy", "path": "/b", "from": "/a"},
        {"op": "add", "path": "/metadata/labels/a~1b~0c", "value": {"y": 2}},
    ]


def test_whole_numbers_that_doubles_cannot_hold_are_texts_in_json_patches() -> None:
    found = mutated(
        operations('[JSONPatch{op: "add", path: "/a", value: [dyn(1), dyn(9007199254740993), dyn(1.5), dyn(b"x")]}]')
    )
    assert found.patch == [{"op": "add", "path": "/a", "value": [1, "9007199254740993", 1.5, "eA=="]}]


@pytest.mark.parametrize(
    ("mutation", "text"),
    [
        (
            apply("{'a': 1}"),
            "spec.mutations[0].applyConfiguration.expression: FieldValueInvalid: "
            "must evaluate to Object but got map(string, int)",
        ),
        (
            operations("[1]"),
            "spec.mutations[0].jsonPatch.expression: FieldValueInvalid: "
            "must evaluate to list(JSONPatch) but got list(int)",
        ),
    ],
)
def test_an_expression_has_the_type_of_its_patch(mutation: dict[str, Any], text: str) -> None:
    assert errors(mutation) == [text]


def test_a_json_patch_has_four_fields_and_no_others() -> None:
    (text,) = errors(operations('[JSONPatch{verb: "add"}]'))
    assert "undefined field 'verb'" in text


@pytest.mark.parametrize("expression", ["Object{}", "JSONPatch{}", "jsonpatch.escapeKey('a') == ''"])
def test_patches_are_known_in_mutations_alone(expression: str) -> None:
    condition = {"name": "c", "expression": f"{expression} == {expression}"}
    (text,) = errors(apply("Object{}"), matchConditions=[condition])
    assert text.startswith("spec.matchConditions[0].expression")
    assert "undeclared reference" in text


def test_variables_are_seen_by_mutations_and_charged() -> None:
    variables = [{"name": "team", "expression": "object.metadata.labels.team"}]
    found = mutated(apply("Object{spec: Object.spec{x: variables.team}}"), variables=variables)
    assert found.patch == {"spec": {"x": "a"}}


def test_what_has_no_form_in_json_is_an_error() -> None:
    found = mutated(operations('[JSONPatch{op: "add", path: "/a", value: quantity("1")}]'))
    assert found.error == (
        "JSONPath valueExpression evaluated to a type that could not marshal to JSON: "
        "unsupported conversion from kubernetes.Quantity to JSON"
    )
    keyed = mutated(apply("Object{spec: Object.spec{x: {1: 'a'}}}"))
    assert keyed.error == 'map key "1" is of type int, not string'


def test_values_that_share_their_parts_end_at_the_cost_limit_when_they_are_written() -> None:
    """Thirty doublings are cheap to make, and a thousand million elements to write."""
    doubled = [{"name": "v0", "expression": "[1]"}]
    doubled += [{"name": f"v{n}", "expression": f"[variables.v{n - 1}, variables.v{n - 1}]"} for n in range(1, 31)]
    found = mutated(apply("Object{spec: Object.spec{x: variables.v30}}"), variables=doubled)
    assert found.error == "operation cancelled: actual cost limit exceeded"


def test_a_failing_expression_says_which() -> None:
    found = mutated(apply("Object{spec: Object.spec{x: object.nothing}}"))
    assert found.error == (
        "expression 'Object{spec: Object.spec{x: object.nothing}}' resulted in error: no such key: nothing"
    )


@pytest.mark.parametrize(
    ("condition", "policy", "verdict"),
    [
        ("true", "Fail", None),
        ("false", "Fail", ""),
        ("object.nothing == 1", "Ignore", ""),
        ("object.nothing == 1", "Fail", "expression 'object.nothing == 1' resulted in error: no such key: nothing"),
    ],
)
def test_conditions_decide_whether_a_policy_applies(condition: str, policy: str, verdict: str | None) -> None:
    compiled = compile_mutations(
        {
            "failurePolicy": policy,
            "matchConditions": [{"name": "c", "expression": f"{condition}"}],
            "mutations": [apply("Object{}")],
        }
    )
    assert compiled.objection(Input(REQUEST, object=POD)) == verdict
