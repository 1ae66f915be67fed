"""The line between a cluster's first process and a child: an order at the start, then questions and what is said.

Either end asks and answers. Both directions are JSON, a line each, over an inherited pair of sockets; its end is the
sign to stop. So a child never outlives the process that supervises it, however that ends.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import struct
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from cathedra.node.concurrency import BlockTasks

__all__ = ["Answer", "ChannelClosed", "ChildLine", "ParentLine", "read_order", "write_order"]

_LOG: Final = logging.getLogger(__name__)
_LENGTH: Final = struct.Struct(">I")
LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a line: what the pods of a node with many of them use."""

Answer = Callable[[str], Awaitable[Any]]
"""Answers the argument of a question with what JSON can hold."""
_NO_ANSWERS: Final[Mapping[str, Answer]] = MappingProxyType({})


class ChannelClosed(ConnectionError):
    """The other process has gone."""


def write_order(writer: asyncio.StreamWriter, order: bytes) -> None:
    """Send the order that a line begins with."""
    writer.write(_LENGTH.pack(len(order)) + order)


async def read_order(reader: asyncio.StreamReader) -> bytes:
    """The order that a line begins with.

    Raises:
        ChannelClosed: the parent went away before it gave one.
    """
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise ChannelClosed("the parent went away") from None


class ParentLine:
    """The parent's end: it asks, answers, and hears what the child says."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        say: Callable[[str], None],
        answers: Mapping[str, Answer] = _NO_ANSWERS,
    ) -> None:
        self._reader, self._writer, self._say, self._answers = reader, writer, say, answers
        self._questions = _Questions(writer)
        self.failure: BaseException | None = None
        """Why the child could not go on, if it told; its traceback is noted there."""

    async def ask(self, question: str, argument: str = "") -> Any:
        """The child's answer.

        Raises:
            ChannelClosed: it has gone.
            KeyError: there is nothing of the name that was asked about, or no answer to such a question.
        """
        return await self._questions.ask(question, argument)

    async def listen(self) -> None:
        """Take what the child sends and answer its questions, until it has gone; what is not answered then is
        cancelled.

        Raises:
            ExceptionGroup: what an answer failed with, other than `KeyError`, which goes to the child.
        """
        try:
            async with BlockTasks() as answering:
                await self._read(answering)
        finally:
            self._questions.close()
            self._writer.close()

    async def _read(self, answering: BlockTasks) -> None:
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line), answering)
        except (OSError, ValueError) as error:
            _LOG.warning("a process of the cluster cannot be understood: %s", error)

    def _take(self, message: Mapping[str, Any], answering: BlockTasks) -> None:
        if "say" in message:
            self._say(message["say"])
        elif "failure" in message:
            self.failure = pickle.loads(base64.b64decode(message["failure"]))
            self.failure.add_note(message["traceback"])
        elif "ask" in message:
            answering.start(_answer(self._answers, message, self._writer))
        else:
            self._questions.settle(message)


class ChildLine:
    """The child's end: it answers, asks, and says what there is to say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._questions = _Questions(writer)

    def say(self, line: str) -> None:
        """Let the user know."""
        _send(self._writer, {"say": line})

    async def fail(self, error: BaseException, traceback: str) -> None:
        """Tell why this process cannot go on."""
        _send(self._writer, {"failure": _pickled(error), "traceback": traceback})
        await self._writer.drain()

    async def ask(self, question: str, argument: str = "") -> Any:
        """The parent's answer, which arrives while `answer` runs.

        Raises:
            ChannelClosed: it has gone.
            KeyError: there is nothing of the name that was asked about, or no answer to such a question.
        """
        return await self._questions.ask(question, argument)

    async def answer(self, answers: Mapping[str, Answer]) -> None:
        """Answer questions until the parent has gone; what is not answered then is cancelled.

        Raises:
            ExceptionGroup: what an answer failed with, other than `KeyError`, which goes to the parent.
        """
        try:
            async with BlockTasks() as answering:
                while line := await self._next():
                    message = json.loads(line)
                    if "ask" in message:
                        answering.start(_answer(answers, message, self._writer))
                    else:
                        self._questions.settle(message)
        finally:
            self._questions.close()

    async def _next(self) -> bytes:
        """The next line; empty when the parent has gone, also if it left unread what was sent to it (a reset)."""
        try:
            return await self._reader.readline()
        except ConnectionError:
            return b""


class _Questions:
    """What one end has asked and the other has not answered yet."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._asked = 0
        self._open = True

    async def ask(self, question: str, argument: str) -> Any:
        if not self._open:
            raise ChannelClosed("the process has gone")
        self._asked += 1
        number = self._asked
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        _send(self._writer, {"id": number, "ask": question, "argument": argument})
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    def settle(self, message: Mapping[str, Any]) -> None:
        """An answer has come; its question may have been given up."""
        answer = self._waiting.get(message["id"])
        if answer is None or answer.done():
            return
        if "missing" in message:
            answer.set_exception(KeyError(message["missing"]))
        else:
            answer.set_result(message["answer"])

    def close(self) -> None:
        """The other process has gone: all questions fail, these and later ones."""
        self._open = False
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ChannelClosed("the process has gone"))
                answer.exception()  # the question may have been given up
        self._waiting.clear()


async def _answer(answers: Mapping[str, Answer], message: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
    try:
        answer = answers[message["ask"]]
        found = {"id": message["id"], "answer": await answer(message["argument"])}
    except KeyError as error:
        found = {"id": message["id"], "missing": str(error)}
    _send(writer, found)


def _pickled(error: BaseException) -> str:
    """An error as the parent may raise it again; another one of the same words, if it cannot be passed on."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        # Whatever is wrong with passing the error on, what it says has to arrive.
        data = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return base64.b64encode(data).decode()


def _send(writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")
