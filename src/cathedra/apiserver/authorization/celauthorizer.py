"""Questions of CEL expressions (``authorizer.group('').resource('pods').check('list')``) put to the server's
authorizer."""

from __future__ import annotations

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes, Authorizer
from cathedra.cel.library.authorizer import AccessAnswer, AccessQuestion, Decide

__all__ = ["decider"]


def decider(authorizer: Authorizer) -> Decide:
    """A function that answers CEL's questions."""

    def decide(question: AccessQuestion) -> AccessAnswer:
        decision = authorizer.authorize(_attributes(question))
        return AccessAnswer(decision.allowed, decision.reason)

    return decide


def _attributes(question: AccessQuestion) -> Attributes:
    user = UserInfo(question.user.name, question.user.groups, question.user.uid, dict(question.user.extra))
    if question.path is not None:
        return Attributes(user, question.verb, path=question.path)
    return Attributes(
        user,
        question.verb,
        question.group,
        "*",
        question.resource,
        question.subresource,
        question.namespace,
        question.name,
        field_selector=question.field_selector,
        label_selector=question.label_selector,
    )
