"""The line between a cluster's processes: questions, answers, what is said, and its end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.processes.channel import (
    LIMIT,
    Answer,
    ChannelClosed,
    ChildLine,
    ParentLine,
    read_order,
    write_order,
)


@dataclass
class Line:
    parent: ParentLine
    child: ChildLine
    parent_writer: asyncio.StreamWriter
    child_writer: asyncio.StreamWriter
    child_reader: asyncio.StreamReader
    said: list[str] = field(default_factory=list)


@asynccontextmanager
async def lines(answers: Mapping[str, Answer] | None = None) -> AsyncIterator[Line]:
    """A line whose parent listens and gives those answers."""
    ours, theirs = socket.socketpair()
    parent_reader, parent_writer = await asyncio.open_connection(sock=ours, limit=LIMIT)
    child_reader, child_writer = await asyncio.open_connection(sock=theirs, limit=LIMIT)
    said: list[str] = []
    parent = ParentLine(parent_reader, parent_writer, say=said.append, answers=answers or {})
    listening = asyncio.create_task(parent.listen())
    yield Line(parent, ChildLine(child_reader, child_writer), parent_writer, child_writer, child_reader, said)
    parent_writer.close()
    child_writer.close()
    await listening


async def test_a_question_gets_its_answer_while_another_one_waits() -> None:
    async with lines() as line:
        gate = asyncio.Event()

        async def slow(argument: str) -> str:
            await gate.wait()
            return f"slow {argument}"

        async def quick(argument: str) -> str:
            return f"quick {argument}"

        answering = asyncio.create_task(line.child.answer({"slow": slow, "quick": quick}))
        first = asyncio.create_task(line.parent.ask("slow", "a"))
        assert await line.parent.ask("quick", "b") == "quick b"
        gate.set()
        assert await first == "slow a"
        line.parent_writer.close()
        await answering


async def test_what_there_is_not_is_a_key_error() -> None:
    async with lines() as line:

        async def missing(argument: str) -> None:
            raise KeyError(argument)

        answering = asyncio.create_task(line.child.answer({"node": missing}))
        with pytest.raises(KeyError, match="node-7"):
            await line.parent.ask("node", "node-7")
        line.parent_writer.close()
        await answering


async def test_questions_fail_when_the_child_has_gone() -> None:
    async with lines() as line:
        waiting = asyncio.create_task(line.parent.ask("anything"))
        await asyncio.sleep(0)
        line.child_writer.close()
        with pytest.raises(ChannelClosed):
            await waiting
        with pytest.raises(ChannelClosed):
            await line.parent.ask("anything")


async def test_a_question_that_is_still_open_does_not_keep_a_child_whose_parent_has_gone() -> None:
    async with lines() as line:
        never = asyncio.Event()

        async def wait(_: str) -> bool:
            return await never.wait()

        answering = asyncio.create_task(line.child.answer({"ready": wait}))
        waiting = asyncio.create_task(line.parent.ask("ready"))
        await asyncio.sleep(0)
        line.parent_writer.write_eof()
        await asyncio.wait_for(answering, 10)
        line.child_writer.close()
        with pytest.raises(ChannelClosed):
            await waiting


async def test_a_question_that_is_not_known_is_a_key_error_and_the_line_goes_on() -> None:
    async def echo(argument: str) -> str:
        return argument

    async with lines({"echo": echo}) as line:
        answering = asyncio.create_task(line.child.answer({"echo": echo}))
        for end in (line.parent, line.child):
            with pytest.raises(KeyError, match="unheard-of"):
                await end.ask("unheard-of")
            assert await end.ask("echo", "a") == "a"
        line.parent_writer.close()
        await answering


async def test_the_child_asks_while_the_parent_waits_for_it() -> None:
    """Answering the child, the parent asks it in turn: both directions are numbered on their own."""
    asked: list[ParentLine] = []

    async def both(argument: str) -> str:
        return f"{argument} {await asked[0].ask('own', argument)}"

    async def own(argument: str) -> str:
        return argument * 100_000

    async with lines({"both": both}) as line:
        asked.append(line.parent)
        answering = asyncio.create_task(line.child.answer({"own": own}))
        assert await line.child.ask("both", "a") == "a " + "a" * 100_000
        line.parent_writer.close()
        await answering


async def test_a_slow_answer_of_the_parent_holds_up_nothing_else() -> None:
    gate = asyncio.Event()

    async def slow(argument: str) -> str:
        await gate.wait()
        return argument

    async def quick(argument: str) -> str:
        return argument

    async with lines({"slow": slow, "quick": quick}) as line:
        answering = asyncio.create_task(line.child.answer({}))
        first = asyncio.create_task(line.child.ask("slow", "a"))
        line.child.say("hello")
        assert await line.child.ask("quick", "b") == "b"
        assert line.said == ["hello"]
        gate.set()
        assert await first == "a"
        line.parent_writer.close()
        await answering


async def test_an_answer_of_the_parent_ends_with_the_child() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def never(_: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with lines({"never": never}) as line:
        waiting = asyncio.create_task(line.child.ask("never"))
        await begun.wait()
        line.child_writer.close()
        await ended.wait()
        waiting.cancel()


async def test_questions_of_the_child_fail_when_the_parent_has_gone() -> None:
    begun = asyncio.Event()

    async def never(_: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with lines({"never": never}) as line:
        answering = asyncio.create_task(line.child.answer({}))
        waiting = asyncio.create_task(line.child.ask("never"))
        await begun.wait()
        line.parent_writer.close()
        await answering
        with pytest.raises(ChannelClosed):
            await waiting
        with pytest.raises(ChannelClosed):
            await line.child.ask("never")


async def test_a_parent_that_goes_without_reading_a_question_has_gone_like_any_other() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)
    child = ChildLine(reader, writer)
    waiting = asyncio.create_task(child.ask("anything"))
    await asyncio.sleep(0)
    ours.close()
    await child.answer({})
    with pytest.raises(ChannelClosed):
        await waiting
    writer.close()


async def test_a_question_that_was_given_up_leaves_the_line_to_others() -> None:
    gate = asyncio.Event()

    async def slow(argument: str) -> str:
        await gate.wait()
        return argument

    async with lines() as line:
        answering = asyncio.create_task(line.child.answer({"slow": slow}))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(line.parent.ask("slow", "a"), 0.001)
        gate.set()
        assert await line.parent.ask("slow", "b") == "b"
        line.parent_writer.close()
        await answering


async def test_what_an_answer_of_the_parent_fails_with_ends_the_listening() -> None:
    async def broken(_: str) -> None:
        raise RuntimeError("no way")

    ours, theirs = socket.socketpair()
    parent = ParentLine(*await asyncio.open_connection(sock=ours), say=print, answers={"broken": broken})
    child_reader, child_writer = await asyncio.open_connection(sock=theirs)
    child = ChildLine(child_reader, child_writer)
    answering = asyncio.create_task(child.answer({}))
    waiting = asyncio.create_task(child.ask("broken"))
    with pytest.raises(ExceptionGroup) as caught:
        await parent.listen()
    assert caught.value.subgroup(lambda error: str(error) == "no way") is not None
    await answering
    with pytest.raises(ChannelClosed):
        await waiting
    child_writer.close()


async def test_what_the_child_says_and_why_it_fails_arrives() -> None:
    async with lines() as line:
        line.child.say("hello")
        await line.child.fail(InvalidOption("--runtime oci needs root"), "the traceback")
        line.child_writer.close()
        with pytest.raises(ChannelClosed):
            await line.parent.ask("anything")
        assert line.said == ["hello"]
        assert isinstance(line.parent.failure, InvalidOption)
        assert str(line.parent.failure) == "--runtime oci needs root"
        assert line.parent.failure.__notes__ == ["the traceback"]


async def test_an_error_that_cannot_be_passed_on_still_says_what_it_said() -> None:
    class Local(Exception):
        pass

    async with lines() as line:
        await line.child.fail(Local("what happened"), "")
        line.child_writer.close()
        with pytest.raises(ChannelClosed):
            await line.parent.ask("anything")
        assert str(line.parent.failure) == "Local: what happened"


async def test_an_order_is_the_first_thing_on_a_line() -> None:
    async with lines() as line:
        write_order(line.parent_writer, b"x" * 200_000)
        assert await read_order(line.child_reader) == b"x" * 200_000


async def test_a_parent_that_goes_before_its_order_ends_the_child() -> None:
    async with lines() as line:
        line.parent_writer.write(b"\x00\x00\x00\x09half")
        line.parent_writer.write_eof()
        with pytest.raises(ChannelClosed):
            await read_order(line.child_reader)
