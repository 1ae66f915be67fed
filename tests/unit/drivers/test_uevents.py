"""The kernel's events when hardware is added or removed."""

from __future__ import annotations

import errno

import pytest

from cathedra.drivers.uevents import LOST, parse_uevent, read_uevents, uevents


def test_a_message_is_a_headline_and_properties() -> None:
    message = b"add@/devices/virtual/tty\0ACTION=add\0SUBSYSTEM=tty\0DEVNAME=ttyUSB0\0SEQNUM=7\0"
    assert parse_uevent(message) == {"ACTION": "add", "SUBSYSTEM": "tty", "DEVNAME": "ttyUSB0", "SEQNUM": "7"}


@pytest.mark.parametrize("message", [b"", b"libudev\0\xfe\xed", b"no headline\0A=b"])
def test_what_is_no_uevent_of_the_kernel_says_nothing(message: bytes) -> None:
    assert parse_uevent(message) == {}


async def test_the_socket_can_be_listened_on_and_closed() -> None:
    try:
        async with uevents() as events:
            assert hasattr(events, "__anext__")
    except OSError as error:
        pytest.skip(f"this kernel gives no uevents here: {error}")


async def test_events_that_came_too_fast_are_told_of_and_the_next_ones_read() -> None:
    coming: list[bytes | OSError] = [
        b"add@/x\0DEVNAME=a\0",
        OSError(errno.ENOBUFS, "No buffer space available"),
        b"add@/y\0DEVNAME=b\0",
        OSError(errno.EBADF, "Bad file descriptor"),
    ]

    async def receive() -> bytes:
        message = coming.pop(0)
        if isinstance(message, OSError):
            raise message
        return message

    events = read_uevents(receive)
    assert [await anext(events) for _ in range(3)] == [{"DEVNAME": "a"}, LOST, {"DEVNAME": "b"}]
    with pytest.raises(OSError, match="Bad file descriptor"):
        await anext(events)
