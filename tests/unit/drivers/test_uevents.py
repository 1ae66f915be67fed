"""What the kernel says when hardware comes and goes."""

from __future__ import annotations

import pytest

from cathedra.drivers.uevents import parse_uevent, uevents


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
