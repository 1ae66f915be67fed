"""Concurrent clients of API servers that are killed see one order of all operations, and the checker of that."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.linearizability.__main__ import Plan, run
from tools.linearizability.checker import Operation, first_impossible, is_linearizable
from tools.linearizability.model import (
    ABSENT,
    UNSEEN,
    Answer,
    Event,
    KubernetesOperation,
    Request,
    Writes,
    check_revisions,
    check_watch,
    step,
    with_unseen_values,
)

from tests.requirements import program


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="linear-") as name:
        yield Path(name)


@pytest.mark.parametrize(("store", "servers"), [("sqlite", 1), ("etcd", 2)])
async def test_answers_and_events_fit_one_order_while_servers_are_killed(
    folder: Path, store: str, servers: int
) -> None:
    if store == "etcd":
        program("etcd")
    outcome = await run(folder, Plan(seconds=2, servers=servers, store=store))
    assert outcome.problems == []
    assert outcome.kills >= 1
    assert len(outcome.history) > 50
    assert outcome.events > 10


# The checker, on a register: input (verb, value), output the value that was read.

Register = Operation[tuple[str, int], int]


def register(state: int, request: tuple[str, int], answer: int | None) -> int | None:
    verb, value = request
    if verb == "write":
        return value
    return state if answer in (None, state) else None


def op(verb: str, value: int, call: float, end: float = math.inf) -> Register:
    return Operation("k", (verb, value), call, end, None if end == math.inf else value)


@pytest.mark.parametrize(
    "history",
    [
        [op("write", 1, 0, 1), op("read", 1, 2, 3)],
        [op("write", 1, 0, 5), op("read", 0, 1, 2), op("read", 1, 3, 4)],
        [op("write", 1, 0), op("read", 0, 1, 2), op("read", 1, 3, 4)],
        [op("write", 1, 0), op("read", 0, 5, 6)],
        [],
    ],
    ids=["in turn", "during the write", "unanswered, later seen", "unanswered, never seen", "empty"],
)
def test_a_history_with_an_order_is_linearizable(history: list[Register]) -> None:
    assert is_linearizable(history, 0, register)
    assert first_impossible(history, 0, register) == ()


@pytest.mark.parametrize(
    "history",
    [
        [op("write", 1, 0, 1), op("read", 0, 2, 3)],
        [op("write", 1, 0, 9), op("read", 1, 1, 2), op("read", 0, 3, 4)],
        [op("write", 1, 0), op("read", 1, 1, 2), op("read", 0, 3, 4)],
        [op("read", 7, 0, 1)],
    ],
    ids=["stale read", "back in time", "unanswered, seen, gone", "never written"],
)
def test_a_history_without_an_order_is_not(history: list[Register]) -> None:
    assert not is_linearizable(history, 0, register)
    assert first_impossible(history, 0, register)


def test_the_beginning_up_to_the_first_impossible_answer_is_reported() -> None:
    wrong = [op("write", 1, 0, 1), op("read", 0, 2, 3)]
    after = [op("write", number, number, number + 0.5) for number in range(4, 40)]
    assert list(first_impossible([*wrong, *after], 0, register)) == wrong


def by_brute_force(history: Sequence[Register]) -> bool:
    """Try each order of each set of operations that has all answered ones."""
    optional = [one for one in history if one.output is None]
    answered = [one for one in history if one.output is not None]
    for count in range(len(optional) + 1):
        for chosen in itertools.combinations(optional, count):
            if any(fits(order) for order in itertools.permutations([*answered, *chosen])):
                return True
    return False


def fits(order: Sequence[Register]) -> bool:
    state: int | None = 0
    for place, one in enumerate(order):
        if any(later.end < one.call for later in order[place + 1 :]):
            return False
        assert state is not None
        state = register(state, one.input, one.output)
        if state is None:
            return False
    return True


@st.composite
def histories(draw: st.DrawFn) -> list[Register]:
    count = draw(st.integers(1, 5))
    moments = draw(st.permutations(range(2 * count)))
    found = []
    for number in range(count):
        call, end = sorted(moments[2 * number : 2 * number + 2])
        verb = draw(st.sampled_from(["read", "write"]))
        lost = verb == "write" and draw(st.booleans())
        found.append(op(verb, draw(st.integers(0, 2)), call, math.inf if lost else end))
    return found


@settings(max_examples=150, deadline=None)
@given(histories())
def test_the_checker_agrees_with_brute_force(history: list[Register]) -> None:
    assert is_linearizable(history, 0, register) == by_brute_force(history)


def test_lost_calls_with_equal_inputs_are_tried_once() -> None:
    # Each of the lost writes could be the one that the first read shows: without an order among them the search would
    # try 2 ** 60 sets before it finds that the last read fits none.
    lost = [op("write", 1, number / 100) for number in range(60)]
    reads = [op("read", 1, 2 * number + 1, 2 * number + 2) for number in range(40)]
    assert not is_linearizable([*lost, *reads, op("read", 7, 200, 201)], 0, register)


# The model of Kubernetes.


def test_lost_writes_whose_values_no_answer_shows_are_of_one_value() -> None:
    shown = KubernetesOperation("k0", Request("get"), 5, 6, Answer(200, "v2", 2))
    lost = [KubernetesOperation("k0", Request("patch", f"v{number}"), number) for number in range(1, 4)]
    deleted = KubernetesOperation("k0", Request("delete"), 4)
    found = with_unseen_values([*lost, deleted, shown])
    assert [one.input.value for one in found] == [UNSEEN, "v2", UNSEEN, "", ""]


def told(
    verb: str, times: tuple[float, float], answer: Answer, value: str = "", version: int = 0
) -> KubernetesOperation:
    return Operation("k", Request(verb, value, version), *times, answer)


CREATED = told("create", (0, 1), Answer(201, "a", 5), "a")


@pytest.mark.parametrize(
    "history",
    [
        [told("get", (2, 3), Answer(200, "a", 5))],
        [told("update", (2, 3), Answer(200, "b", 6), "b", 5), told("get", (4, 5), Answer(200, "b", 6))],
        [told("update", (2, 3), Answer(409), "b", 4)],
        [
            told("delete", (2, 3), Answer(200)),
            told("get", (4, 5), Answer(404)),
            told("patch", (6, 7), Answer(404), "b"),
        ],
        [Operation("k", Request("patch", "b"), 2), told("get", (4, 5), Answer(200, "b", 9))],
        [told("list", (2, 3), Answer(200, "a", 5, 7))],
    ],
    ids=["get", "update", "conflict", "delete", "unanswered patch", "list"],
)
def test_right_answers_are_explained(history: list[KubernetesOperation]) -> None:
    assert is_linearizable([CREATED, *history], ABSENT, step)


@pytest.mark.parametrize(
    "wrong",
    [
        told("get", (2, 3), Answer(404)),
        told("get", (2, 3), Answer(200, "a", 4)),
        told("create", (2, 3), Answer(201, "b", 6), "b"),
        told("update", (2, 3), Answer(200, "b", 6), "b", 4),
        told("update", (2, 3), Answer(409), "b", 5),
        told("update", (2, 3), Answer(200, "b", 5), "b", 5),
        told("delete", (2, 3), Answer(404)),
        told("list", (2, 3), Answer(200, None, 0, 7)),
        told("list", (2, 3), Answer(200, "a", 5, 4)),
    ],
    ids=[
        "lost write",
        "other version",
        "created twice",
        "lost update",
        "needless conflict",
        "version twice",
        "lost object",
        "missing in list",
        "old list",
    ],
)
def test_wrong_answers_are_found(wrong: KubernetesOperation) -> None:
    assert not is_linearizable([CREATED, wrong], ABSENT, step)


def test_versions_of_all_objects_are_of_one_counter() -> None:
    other = Operation("other", Request("create", "b"), 2, 3, Answer(201, "b", 5))
    assert check_revisions([CREATED, other])
    assert check_revisions([CREATED, other], shared=True) == []
    older = Operation("other", Request("create", "b"), 2, 3, Answer(201, "b", 4))
    assert check_revisions([CREATED, older], shared=True)


@pytest.mark.parametrize(
    "events",
    [
        [Event("ADDED", "k", "a", 5), Event("ADDED", "k", "a", 5)],
        [Event("ADDED", "k", "a", 5), Event("ADDED", "k", "b", 6)],
        [Event("ADDED", "k", "z", 5)],
        [Event("ADDED", "other", "b", 7)],
    ],
    ids=["twice", "added again", "never written", "one missing"],
)
def test_a_watch_that_is_wrong_is_found(events: list[Event]) -> None:
    other = Operation("other", Request("create", "b"), 0, 1, Answer(201, "b", 7))
    writes = Writes([CREATED, other])
    assert check_watch([Event("ADDED", "k", "a", 5), Event("ADDED", "other", "b", 7)], 4, writes) == []
    assert check_watch(events, 4, writes)
