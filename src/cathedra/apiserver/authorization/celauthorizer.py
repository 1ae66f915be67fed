"""Questions of CEL expressions (``authorizer.group('').resource('pods').check('list')``) put to the server's
authorizer."""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes, Authorizer
from cathedra.cel.library.authorizer import AccessAnswer, AccessQuestion, Decide

_ANSWER_SECONDS: Final = 60.0
"""Seconds after which a thread no longer waits for the loop: the server has ended."""


def decider(authorizer: Authorizer) -> Decide:
    """Return a function that answers CEL's questions. The authorizer's caches belong to the event loop, so a question
    from another thread is handed to the loop, and the thread waits for the answer."""
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def decide(question: AccessQuestion) -> AccessAnswer:
        decision = authorizer.authorize(_attributes(question))
        return AccessAnswer(decision.allowed, decision.reason)

    async def decided(question: AccessQuestion) -> AccessAnswer:
        return decide(question)

    def from_anywhere(question: AccessQuestion) -> AccessAnswer:
        if threading.get_ident() == home:
            return decide(question)
        return asyncio.run_coroutine_threadsafe(decided(question), loop).result(_ANSWER_SECONDS)

    return from_anywhere


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
