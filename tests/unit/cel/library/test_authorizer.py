"""Permission checks that are built step by step (docs/spec/cel.md §10.5)."""

from __future__ import annotations

import pytest

from cathedra.cel.checking import types
from cathedra.cel.library.authorizer import AccessAnswer, AccessQuestion, AuthorizerValue, User
from cathedra.cel.program import compile_expression
from tests.unit.cel.asking import PLAIN

ENVIRONMENT = PLAIN.extend({"authorizer": types.AUTHORIZER})


def asked(expression: str) -> tuple[object, list[AccessQuestion]]:
    """The value or error, and the questions that were put."""
    questions: list[AccessQuestion] = []

    def decide(question: AccessQuestion) -> AccessAnswer:
        questions.append(question)
        return AccessAnswer(question.verb == "get", "because")

    authorizer = AuthorizerValue(decide, AccessQuestion(User("me")))
    found = compile_expression(expression, ENVIRONMENT).evaluate({"authorizer": authorizer})
    return found.error if found.error is not None else found.value, questions


def test_a_check_puts_one_question_with_everything_named() -> None:
    value, questions = asked(
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('n').name('d')"
        ".check('get').allowed()"
    )
    assert value is True
    assert questions == [AccessQuestion(User("me"), "get", None, "apps", "deployments", "scale", "n", "d")]


def test_a_service_account_asks_in_its_own_name() -> None:
    value, questions = asked("authorizer.serviceAccount('ns', 'sa').path('/healthz').check('post').reason()")
    assert value == "because"
    assert questions[0].user.name == "system:serviceaccount:ns:sa"


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("authorizer.path('').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource(' ').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('ns', 'No').path('/').check('get').allowed()", "Invalid service account name"),
    ],
)
def test_impossible_questions_are_errors(expression: str, error: str) -> None:
    assert asked(expression) == (error, [])
