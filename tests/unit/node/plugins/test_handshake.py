"""The kubelet's half of the registration handshake."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.node.plugins.client import PluginCallError
from cathedra.node.plugins.handshake import DRIVER_TYPE, RegistrationSocket
from tests.unit.node.driver_server import DriverServer


@pytest.fixture
def root() -> Iterator[Path]:
    """A short path: a socket's address has room for 107 characters."""
    with tempfile.TemporaryDirectory(prefix="hand-") as directory:
        yield Path(directory)


async def test_a_driver_says_who_it_is_and_is_told_what_came_of_it(root: Path) -> None:
    driver = DriverServer(root, "a.example.com")
    await driver.start()
    try:
        async with RegistrationSocket(driver.registration) as socket:
            await socket.connect(60)
            info = await socket.get_info(60)
            await socket.notify(registered=False, error="not today")
        assert (info.socket, info.type, info.name) == (driver.registration, DRIVER_TYPE, "a.example.com")
        assert info.services
    finally:
        await driver.stop()


async def test_a_socket_that_is_not_served_is_told_apart_from_one_that_does_not_answer(root: Path) -> None:
    async with RegistrationSocket(root / "nothing.sock") as socket:
        with pytest.raises(TimeoutError):
            await socket.connect(0.05)
        with pytest.raises(PluginCallError, match="DeadlineExceeded"):
            await socket.get_info(0.05)
        with pytest.raises(TimeoutError):
            await socket.connect(0.05)
