"""A command's streams over a WebSocket."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from cathedra.clock import run_virtual
from cathedra.node.server.bytechannel import choose_protocol
from cathedra.node.server.remotecommand import PROTOCOLS, AnnouncedStreams, CommandSocket, exit_status
from tests.unit.node.server.echo import Echo

ALL = AnnouncedStreams(stdin=True, stdout=True, stderr=True)
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"


def converse(
    process: Echo, *frames: bytes | str, hang_up: bool = False, protocol: str = V5, wanted: AnnouncedStreams = ALL
) -> list[dict[str, Any]]:
    """Return the frames of the server after ``frames`` of the client."""
    sent: list[dict[str, Any]] = []

    async def body() -> None:
        waiting = list(frames)

        async def receive() -> dict[str, Any]:
            if waiting:
                frame = waiting.pop(0)
                return {"type": "websocket.receive", "text" if isinstance(frame, str) else "bytes": frame}
            if not hang_up:
                await asyncio.sleep(3600)
            return {"type": "websocket.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await CommandSocket(receive, send, protocol, wanted).serve(process)

    run_virtual(body())
    return sent


def test_output_and_exit_code_come_on_their_channels() -> None:
    process = Echo(3)
    sent = converse(process, b"\x00hello", b"\xff\x00")
    assert sent[0]["bytes"] == b"\x01hello"
    assert json.loads(sent[1]["bytes"][1:]) == exit_status(3)
    assert sent[1]["bytes"][0] == 3
    assert sent[2] == {"type": "websocket.close", "code": 1000}
    assert process.closed


def test_a_command_does_not_outlive_its_client() -> None:
    process = Echo()
    assert converse(process, hang_up=True) == []
    assert process.closed


@pytest.mark.parametrize(
    "message",
    [
        b'{"Width":1e999,"Height":1}',
        b'{"Width":70000,"Height":1}',
        b'{"Width":-1,"Height":1}',
        b'{"Width":"80","Height":1}',
        b"[" * 100_000,
        b"[" * 255,
        b"\xff\xfe",
        b"null",
        b"",
    ],
)
def test_a_message_that_is_no_size_changes_nothing(message: bytes) -> None:
    process = Echo()
    sent = converse(process, b"\x04" + message, b'\x04{"Width":80,"Height":24}', b"\xff\x00")
    assert process.sizes == [(80, 24)]
    assert sent[-1]["code"] == 1000


def test_the_newest_protocol_is_chosen_wherever_it_is_and_otherwise_the_clients_first() -> None:
    assert choose_protocol([V4, V5], PROTOCOLS) == V5
    assert choose_protocol(["other", "channel.k8s.io", V4], PROTOCOLS) == "channel.k8s.io"
    assert choose_protocol([], PROTOCOLS) == ""
    assert choose_protocol(["other"], PROTOCOLS) is None


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (V5, {"bytes": b'\x03{"status": "Failure", "message": "no"}'}),
        (V4, {"bytes": b'\x03{"status": "Failure", "message": "no"}'}),
        ("v4.base64.channel.k8s.io", {"text": "3eyJzdGF0dXMiOiAiRmFpbHVyZSIsICJtZXNzYWdlIjogIm5vIn0="}),
        ("channel.k8s.io", {"bytes": b"\x03no"}),
        ("base64.channel.k8s.io", {"text": "3bm8="}),
        ("", {"bytes": b"\x03no"}),
    ],
)
def test_a_refusal_comes_on_the_error_channel_as_a_status_from_v4_on(protocol: str, message: dict[str, Any]) -> None:
    sent: list[dict[str, Any]] = []

    async def body() -> None:
        async def receive() -> dict[str, Any]:
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await CommandSocket(receive, send, protocol, ALL).refuse({"status": "Failure", "message": "no"})

    run_virtual(body())
    assert sent == [{"type": "websocket.send"} | message, {"type": "websocket.close", "code": 1000}]


class Once(Echo):
    """A process that ends after one piece of input: clients before v5 cannot end the input."""

    async def write(self, data: bytes) -> None:
        await super().write(data)
        await self.close_input()


@pytest.mark.parametrize("protocol", ["channel.k8s.io", ""])
def test_before_v4_a_success_has_no_message_and_a_failure_its_text(protocol: str) -> None:
    close = {"type": "websocket.close", "code": 1000}
    output = {"type": "websocket.send", "bytes": b"\x01x"}
    assert converse(Once(), b"\x00x", protocol=protocol) == [output, close]
    text = b"\x03command terminated with non-zero exit code: exit status 3"
    failed = {"type": "websocket.send", "bytes": text}
    assert converse(Once(3), b"\x00x", protocol=protocol) == [output, failed, close]


@pytest.mark.parametrize("frames", [("0aGVs\nbG8=",), (b"0aGVsbG8=",), ("0not base64", "", "0aGVsbG8=")])
def test_base64_is_read_from_text_and_binary_messages(frames: tuple[bytes | str, ...]) -> None:
    sent = converse(Once(), *frames, protocol="base64.channel.k8s.io")
    assert sent[0] == {"type": "websocket.send", "text": "1aGVsbG8="}


def test_the_close_signal_is_one_of_v5_alone() -> None:
    process = Once()
    sent = converse(process, b"\xff\x00", b"\x00x", protocol=V4)
    assert sent[0]["bytes"] == b"\x01x"


def test_channels_that_were_not_requested_carry_nothing() -> None:
    (status, _) = converse(Once(), b"\x00x", wanted=AnnouncedStreams(stdin=True))
    assert status["bytes"][:1] == b"\x03"
    assert converse(Once(), b"\x00x", hang_up=True, wanted=AnnouncedStreams(stdout=True)) == []


def test_a_client_that_has_gone_when_output_comes_ends_the_command_quietly() -> None:
    process = Echo()

    async def body() -> None:
        async def receive() -> dict[str, Any]:
            await asyncio.sleep(3600)
            return {"type": "websocket.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            raise OSError("closed")

        await process.write(b"hello")
        await CommandSocket(receive, send, V5, ALL).serve(process)

    run_virtual(body())
    assert process.closed
