"""ValidatingAdmissionPolicies (docs/spec/cel.md §10)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from cathedra.cel.admission import Input, Result, compile_policy
from cathedra.cel.library.authorizer import AccessAnswer
from tests.unit.cel.building import nonsense

REQUEST: dict[str, Any] = {
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "operation": "CREATE",
    "name": "p",
    "namespace": "n",
    "userInfo": {"username": "me"},
}
POD = {"metadata": {"name": "p", "labels": {"team": "a"}}, "spec": {"replicas": 3}}


def decided(*expressions: str, **spec: Any) -> Result:
    """Return the result of a policy with these validations on a pod."""
    validations = [{"expression": expression} for expression in expressions]
    return compile_policy({"validations": validations, **spec}).evaluate(Input(REQUEST, object=POD))


def errors(**spec: Any) -> list[str]:
    """Return the errors of the creation of the policy."""
    return [str(error) for error in compile_policy(spec).errors]


def test_a_true_validation_admits_and_a_false_one_denies() -> None:
    good, bad = decided("object.spec.replicas < 5", "object.spec.replicas > 5").decisions
    assert (good.action, good.evaluation) == ("admit", "admit")
    assert (bad.action, bad.message, bad.reason) == ("deny", "failed expression: object.spec.replicas > 5", "Invalid")


def test_an_error_follows_the_failure_policy() -> None:
    assert decided("object.spec.nope == 1").decisions[0].action == "deny"
    assert decided("object.spec.nope == 1", failurePolicy="Ignore").decisions[0].action == "admit"


def test_a_false_match_condition_switches_the_policy_off() -> None:
    conditions = [{"name": "c", "expression": "request.operation == 'DELETE'"}]
    assert decided("false", matchConditions=conditions).decisions == ()


def test_variables_are_composed_and_messages_computed() -> None:
    policy = compile_policy(
        {
            "variables": [{"name": "n", "expression": "object.spec.replicas + 1"}],
            "validations": [
                {"expression": "variables.n < 4", "messageExpression": "'too many: ' + string(variables.n)"}
            ],
        }
    )
    assert policy.evaluate(Input(REQUEST, object=POD)).decisions[0].message == "too many: 4"


def test_audit_annotations_are_published_or_left_out() -> None:
    annotations = [{"key": "a", "valueExpression": "'x' + request.name"}, {"key": "b", "valueExpression": "null"}]
    made = decided("true", auditAnnotations=annotations).annotations
    assert [(one.key, one.action, one.value) for one in made] == [("a", "publish", "xp"), ("b", "exclude", "")]


def test_the_authorizer_is_asked() -> None:
    policy = compile_policy({"validations": [{"expression": "authorizer.requestResource.check('custom').allowed()"}]})
    given = Input(REQUEST, object=POD, decide=lambda question: AccessAnswer(question.verb == "custom"))
    assert policy.evaluate(given).decisions[0].action == "admit"


def test_mistakes_are_reported_by_field() -> None:
    assert errors(validations=[{"expression": "1 +"}])[0].startswith(
        "spec.validations[0].expression: FieldValueInvalid: "
    )
    assert errors(validations=[{"expression": "'a'"}]) == [
        "spec.validations[0].expression: FieldValueInvalid: must evaluate to bool but got string"
    ]


def test_params_exist_only_with_a_kind() -> None:
    assert "undeclared reference to 'params'" in errors(validations=[{"expression": "params == null"}])[0]
    assert errors(paramKind={"kind": "X"}, validations=[{"expression": "params == null"}]) == []


@settings(max_examples=100, deadline=None)
@given(nonsense)
def test_no_expression_makes_a_policy_raise(source: str) -> None:
    assert len(decided(source).decisions) == 1


def test_an_expression_that_takes_too_long_has_exceeded_its_cost_limit() -> None:
    policy = compile_policy({"validations": [{"expression": "[1, 2, 3].all(x, x > 0)"}]})
    decision = policy.evaluate(Input(REQUEST, object=POD, interrupted=lambda: True)).decisions[0]
    assert decision.action == "deny"
    assert decision.message.endswith("resulted in error: operation cancelled: actual cost limit exceeded")
