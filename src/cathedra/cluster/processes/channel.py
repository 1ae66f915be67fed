"""The line between a cluster's first process and a child: an order at the start, then questions and what is said.

Both directions are JSON, a line each, over an inherited pair of sockets; its end is the sign to stop. So a child never
outlives the process that supervises it, however that ends.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

__all__ = ["Answer", "ChannelClosed", "ChildLine", "ParentLine", "read_order", "write_order"]

_LOG: Final = logging.getLogger(__name__)
_LENGTH: Final = struct.Struct(">I")
LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a line: what the pods of a node with many of them use."""

Answer = Callable[[str], Awaitable[Any]]


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
    """The parent's end: it asks, and hears what the child says."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, say: Callable[[str], None]
    ) -> None:
        self._reader, self._writer, self._say = reader, writer, say
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._asked = 0
        self._open = True
        self.failure: BaseException | None = None
        """Why the child could not go on, if it told; its traceback is noted there."""

    async def ask(self, question: str, argument: str = "") -> Any:
        """The child's answer.

        Raises:
            ChannelClosed: it has gone.
            KeyError: there is nothing of the name that was asked about.
        """
        if not self._open:
            raise ChannelClosed("the process has gone")
        self._asked += 1
        answer = self._waiting[self._asked] = asyncio.get_running_loop().create_future()
        _send(self._writer, {"id": self._asked, "ask": question, "argument": argument})
        return await answer

    async def listen(self) -> None:
        """Take what the child sends, until it has gone."""
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        except (OSError, ValueError) as error:
            _LOG.warning("a process of the cluster cannot be understood: %s", error)
        finally:
            self._open = False
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ChannelClosed("the process has gone"))
                    answer.exception()  # the question may have been given up
            self._waiting.clear()
            self._writer.close()

    def _take(self, message: Mapping[str, Any]) -> None:
        if "say" in message:
            self._say(message["say"])
        elif "failure" in message:
            self.failure = pickle.loads(base64.b64decode(message["failure"]))
            self.failure.add_note(message["traceback"])
        elif (answer := self._waiting.pop(message["id"], None)) is not None and not answer.done():
            if "missing" in message:
                answer.set_exception(KeyError(message["missing"]))
            else:
                answer.set_result(message["answer"])


class ChildLine:
    """The child's end: it answers, and says what there is to say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def say(self, line: str) -> None:
        """Let the user know."""
        _send(self._writer, {"say": line})

    async def fail(self, error: BaseException, traceback: str) -> None:
        """Tell why this process cannot go on."""
        _send(self._writer, {"failure": _pickled(error), "traceback": traceback})
        await self._writer.drain()

    async def answer(self, answers: Mapping[str, Answer]) -> None:
        """Answer questions until the parent has gone."""
        async with asyncio.TaskGroup() as group:
            answering: set[asyncio.Task[None]] = set()
            while line := await self._reader.readline():
                message = json.loads(line)
                task = group.create_task(self._answer(message, answers[message["ask"]]))
                answering.add(task)
                task.add_done_callback(answering.discard)
            for task in answering:
                task.cancel()

    async def _answer(self, message: Mapping[str, Any], answer: Answer) -> None:
        try:
            found = {"id": message["id"], "answer": await answer(message["argument"])}
        except KeyError as error:
            found = {"id": message["id"], "missing": str(error)}
        _send(self._writer, found)


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
