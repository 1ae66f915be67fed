"""Questions of expressions about permissions."""

from __future__ import annotations

import asyncio
import threading

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes, Decision, Verdict
from cathedra.apiserver.authorization.celauthorizer import decider
from cathedra.cel.library.authorizer import AccessQuestion, User


class Recorder:
    """An authorizer that allows everything, and records the thread that each question came in."""

    def __init__(self) -> None:
        self.asked: list[tuple[threading.Thread, Attributes]] = []

    def authorize(self, attributes: Attributes) -> Decision:
        self.asked.append((threading.current_thread(), attributes))
        return Decision(Verdict.ALLOW, "because")


QUESTION = AccessQuestion(User("ada", "", (), ()), verb="get", resource="pods", namespace="default")


async def test_a_question_from_the_thread_for_long_computations_is_decided_on_the_loop() -> None:
    authorizer = Recorder()
    decide = decider(authorizer)
    here = decide(QUESTION)
    there = await asyncio.to_thread(decide, QUESTION)
    assert here == there
    assert here.allowed
    assert [thread for thread, _ in authorizer.asked] == [threading.main_thread()] * 2
    assert authorizer.asked[0][1] == Attributes(UserInfo("ada"), "get", "", "*", "pods", namespace="default")
