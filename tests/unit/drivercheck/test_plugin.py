"""Finding drivers by their registration sockets."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.clock import SystemClock
from cathedra.drivercheck.errors import CheckFailed, DriverCheckError
from cathedra.drivercheck.plugin import ExaminedPlugin, PluginDirectory
from cathedra.node.plugins.grpcclient import PluginAnnouncement
from tests.unit.node.driver_server import DriverServer


@pytest.fixture
def root() -> Iterator[Path]:
    """A short path: a socket's address has room for 107 characters."""
    with tempfile.TemporaryDirectory(prefix="check-") as directory:
        yield Path(directory)


async def test_a_driver_is_found_when_it_comes_and_missed_when_it_goes(root: Path) -> None:
    directory = PluginDirectory(root / "plugins_registry", SystemClock())
    async with directory.watched():
        finding = asyncio.ensure_future(directory.find("", seconds=120))
        driver = DriverServer(root, "a.example.com")
        await driver.start()
        info = await finding
        assert (info.name, info.type, info.socket) == ("a.example.com", "DRAPlugin", driver.registration)
        await driver.stop()
        async with asyncio.timeout(120):
            await directory.until_gone(info.socket)


async def test_one_of_several_drivers_has_to_be_chosen(root: Path) -> None:
    drivers = [DriverServer(root, name) for name in ("a.example.com", "b.example.com")]
    for driver in drivers:
        await driver.start()
    directory = PluginDirectory(root / "plugins_registry", SystemClock())
    async with directory.watched():
        assert (await directory.find("b.example.com", seconds=120)).name == "b.example.com"
        with pytest.raises(DriverCheckError, match=r"choose one with --driver: a\.example\.com, b\.example\.com"):
            await directory.find("", seconds=120)
    for driver in drivers:
        await driver.stop()


async def test_a_driver_that_does_not_come_is_named(root: Path) -> None:
    directory = PluginDirectory(root, SystemClock())
    async with directory.watched():
        with pytest.raises(DriverCheckError, match=r"no driver c\.example\.com has come to .* within 0\.01 s"):
            await directory.find("c.example.com", seconds=0.01)


def test_a_driver_without_a_version_that_kubelets_know_cannot_be_called() -> None:
    plugin = ExaminedPlugin(
        PluginAnnouncement(Path("/s"), "DRAPlugin", "a.example.com", "/e", ("v9.DRAPlugin",)), SystemClock()
    )
    with pytest.raises(
        CheckFailed, match=r"it offers v9\.DRAPlugin; a kubelet calls v1\.DRAPlugin or v1beta1\.DRAPlugin"
    ):
        plugin.client()
