"""Limits of answers: rates, places, time; tokens and rights that end; and a server that does not answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.core.authorization_v1 import SubjectAccessReview, SubjectAccessReviewStatus
from cathedra.api.resource import ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import ROLEBINDINGS, SERVICEACCOUNTS
from cathedra.client.transport import APICall, WatchEvent
from cathedra.clock import SystemClock
from cathedra.engine import messages
from cathedra.insight.inventory.history import HistoryWriter
from cathedra.insight.inventory.holdings import holdings_of
from cathedra.mcp.answering import SNAPSHOT_SECONDS, AnswerLimits, UserAnswers, compute_beside
from cathedra.mcp.http import TOKEN_SECONDS
from tests.running import run_with
from tests.unit.mcp.asked import ADMIN, TEAM_A, TEAM_B, Asking, FixedSource, asking, cluster

JANE = UserInfo(username="jane")


class FailingTransport:
    """A transport whose server can go away."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.away = False

    async def call(self, call: APICall) -> Any:
        if self.away:
            raise ConnectionError("connection refused")
        return await self._inner.call(call)


def test_a_server_that_does_not_answer_is_503_and_no_401_or_403() -> None:
    made: list[FailingTransport] = []

    def failing(client: Client) -> Client:
        made.append(FailingTransport(client.transport))
        return Client(made[0], clock=client.clock)  # type: ignore[arg-type]

    async def body(asked: Asking) -> None:
        assert (await asked.get("/devices", TEAM_A))[0] == 200
        made[0].away = True
        assert (await asked.get("/devices", TEAM_A))[0] == 200  # within the time for which reviews are kept
        await asked.api.clock.sleep(TOKEN_SECONDS + 0.1)
        status, found = await asked.get("/devices", TEAM_A)
        assert (status, found["reason"]) == (503, "ServiceUnavailable")
        made[0].away = False
        assert (await asked.get("/devices", TEAM_A))[0] == 200

    asking(body, transport=failing)


@run_with(lambda test: asking(test, source=FixedSource(None)))
async def test_before_the_cluster_has_been_read_the_answer_is_503(asked: Asking) -> None:
    status, found = await asked.get("/devices", ADMIN)
    assert (status, found["reason"]) == (503, "ServiceUnavailable")


@run_with(asking)
async def test_a_token_whose_account_is_gone_ends_within_seconds(asked: Asking) -> None:
    assert (await asked.get("/devices", TEAM_A))[0] == 200
    await asked.api.admin.resource(SERVICEACCOUNTS, "default").delete(TEAM_A)
    await asked.api.clock.sleep(TOKEN_SECONDS + 0.1)
    assert (await asked.get("/devices", TEAM_A))[0] == 401


@run_with(asking)
async def test_a_namespace_whose_binding_is_gone_is_hidden_within_seconds(asked: Asking) -> None:
    assert "team-a/train-a" in str(await asked.get("/devices", TEAM_A))
    await asked.api.admin.resource(ROLEBINDINGS, TEAM_A).delete("team-a-team-a")
    await asked.api.clock.sleep(TOKEN_SECONDS + 0.1)
    assert "train-a" not in str(await asked.get("/devices", TEAM_A))
    assert (await asked.get("/explain", TEAM_A, pod="team-a/next-a"))[0] == 403


@run_with(lambda test: asking(test, limits=AnswerLimits(per_minute=3)))
async def test_a_user_has_a_number_of_questions_in_a_minute_and_others_are_not_concerned(asked: Asking) -> None:
    for _ in range(3):
        assert (await asked.get("/usage", TEAM_A))[0] == 200
    status, found, headers = await asked.request("/usage", TEAM_A)
    assert (status, found["reason"], headers[b"retry-after"]) == (429, "TooManyRequests", b"20")
    assert (await asked.get("/usage", TEAM_B))[0] == 200
    await asked.api.clock.sleep(21)
    assert (await asked.get("/usage", TEAM_A))[0] == 200


@run_with(asking)
async def test_an_answer_shows_the_cluster_of_seconds_ago_at_most(asked: Asking) -> None:
    assert "train-b" in str(await asked.get("/devices", ADMIN))
    gone = [one for one in asked.source.state.all(ResourceClaim) if one.metadata.name == "train-b"]  # type: ignore[union-attr]
    asked.source.state = asked.source.state.without(gone)  # type: ignore[union-attr]
    asked.source.version += 1
    await asked.api.clock.sleep(SNAPSHOT_SECONDS + 0.1)
    assert "train-b" not in str(await asked.get("/devices", ADMIN))


def test_device_hours_of_others_are_summed_without_their_names(tmp_path: Path) -> None:
    state = cluster()
    source = FixedSource(state, tmp_path / "history.db")

    async def body(asked: Asking) -> None:
        writer = HistoryWriter(tmp_path / "history.db", asked.api.clock)
        assert state.now is not None
        for claim in state.all(ResourceClaim):
            for one in holdings_of(claim, state.now - 7200):
                writer.begun(one)
        writer.close()
        _, found = await asked.get("/usage", TEAM_A, since="1h")
        rows = {one["name"]: one["deviceHours"] for one in found["result"]["rows"]}
        assert rows == {"team-a": 1.0, "(hidden)": 1.0}
        _, found = await asked.get("/usage", ADMIN, since="1h")
        assert {one["name"] for one in found["result"]["rows"]} == {"team-a", "team-b"}

    asking(body, source=source)


class AllowingTransport:
    """A server that allows everything."""

    async def call(self, call: APICall) -> Any:
        assert isinstance(call.body, SubjectAccessReview)
        return replace(call.body, status=SubjectAccessReviewStatus(allowed=True))

    def watch(self, call: APICall) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        raise NotImplementedError


def answers(**limits: Any) -> UserAnswers:
    clock = SystemClock()
    client = Client(AllowingTransport(), clock=clock)  # type: ignore[arg-type]
    return UserAnswers(FixedSource(cluster()), client, clock, AnswerLimits(**limits))


async def code_of(found: UserAnswers, question: messages.Question, user: UserInfo = JANE) -> int:
    try:
        await found.answer(user, question)
    except StatusError as error:
        return error.code
    return 200


async def test_a_computation_ends_at_its_deadline() -> None:
    found = answers(seconds=0.0)
    for question in (messages.Match(expression="true"), messages.Simulate(), messages.Explain()):
        assert await code_of(found, question) == 504
    found.close()


async def test_a_user_may_wait_for_some_answers_and_all_users_for_a_few_more() -> None:
    found = answers(waiting=3, waiting_per_user=2)
    question = messages.Devices()
    users = [JANE, JANE, JANE, UserInfo(username="john"), UserInfo(username="joe")]
    codes = await asyncio.gather(*(code_of(found, question, one) for one in users))
    assert codes == [200, 200, 429, 200, 429]
    assert await code_of(found, question) == 200
    found.close()


@pytest.mark.skipif(sys.platform != "linux", reason="answers are computed in a thread on this system")
async def test_a_process_gives_the_answers_that_a_thread_gives() -> None:
    clock, source = SystemClock(), FixedSource(cluster())
    client = Client(AllowingTransport(), clock=clock)  # type: ignore[arg-type]
    process = UserAnswers(source, client, clock, compute=compute_beside(source))
    thread = answers()
    questions = (messages.Devices(), messages.Explain(), messages.Simulate(drain=("n1",), force=True, copies=0))
    for question in questions:
        assert await process.answer(JANE, question, 0) == await thread.answer(JANE, question, 0)
    with pytest.raises(StatusError, match="Syntax error"):
        await process.answer(JANE, messages.Match(expression="1 +"))
    late = UserAnswers(source, client, clock, AnswerLimits(seconds=0.0), compute_beside(source))
    assert await code_of(late, messages.Explain()) == 504
    for one in (process, thread, late):
        one.close()


async def test_the_event_loop_runs_while_an_answer_is_computed() -> None:
    found = answers()
    asked = asyncio.ensure_future(code_of(found, messages.Simulate(drain=("n1",), force=True, copies=0)))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert asked.result() == 200
    assert turns > 10
    found.close()
