"""Drivers on real sockets: handshake, versions, rolling update, loss (docs/spec/node.md §2 to §4 and §14)."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cathedra._proto import dra_health_v1_pb2 as health
from cathedra.clock import SystemClock
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins import registration
from cathedra.node.plugins.client import (
    ClaimReference,
    DeviceCondition,
    PluginCallError,
    PluginDevice,
    PluginNotRegistered,
    RegistrationError,
)
from cathedra.node.plugins.grpcclient import GRPCPluginClient, PluginServices
from cathedra.node.plugins.health import HealthCache, HealthFollower
from cathedra.node.plugins.registration import PluginRegistrar, SocketWatcher, choose_services, services_of
from cathedra.node.plugins.registry import PluginRegistry
from cathedra.releases import FeatureGates
from tests.running import beside
from tests.unit.node.driver_server import DriverServer
from tests.unit.node.fakes import GATES

NAME = "gpu.example.com"
CLAIM = ClaimReference("default", "u1", "c1")


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process or thread does."""
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - gRPC's threads set no event
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
async def ended() -> AsyncIterator[None]:
    """No server outlives its test: gRPC would keep the process from ending."""
    yield
    for driver in tuple(DriverServer.running):
        await driver.stop()


@asynccontextmanager
async def node(root: Path, registry: PluginRegistry) -> AsyncIterator[None]:
    clock = SystemClock()
    registrar = PluginRegistrar(
        root / "plugins_registry", registry, plugins=root / "plugins", clock=clock, metrics=NodeMetrics(clock)
    )
    async with beside(registrar.run()):
        yield


def connected(registry: PluginRegistry, count: int = 1) -> Callable[[], bool]:
    return lambda: sum(instance.connected for instance in registry.instances(NAME)) == count


async def test_a_driver_that_appears_is_registered_called_and_forgotten_when_it_goes(tmp_path: Path) -> None:
    registry = PluginRegistry()
    driver = DriverServer(tmp_path, NAME)
    async with node(tmp_path, registry):
        await driver.start()
        await until(lambda: connected(registry)() and bool(driver.told))
        assert driver.told == [(True, "")]
        client = registry.get(NAME).client
        prepared = await client.prepare([CLAIM])
        assert prepared["u1"].devices == (PluginDevice("n1", "gpu-0", share_id="s1"),)
        assert await client.unprepare([CLAIM]) == {"u1": ""}
        assert driver.calls == [("prepare v1", ["c1"]), ("unprepare v1", ["c1"])]
        await driver.stop()
        await until(lambda: registry.drivers() == ())
        with pytest.raises(PluginNotRegistered, match=f"DRA driver {NAME} is not registered"):
            registry.get(NAME)


async def test_a_driver_that_was_there_first_is_found_and_its_order_of_versions_decides(tmp_path: Path) -> None:
    registry = PluginRegistry()
    driver = DriverServer(tmp_path, NAME, versions=("v1beta1.DRAPlugin", "v1.DRAPlugin"))
    await driver.start()
    async with node(tmp_path, registry):
        await until(connected(registry))
        prepared = await registry.get(NAME).client.prepare([CLAIM])
        assert prepared["u1"].devices[0].share_id is None
        assert driver.calls == [("prepare v1beta1", ["c1"])]
    await driver.stop()


async def test_a_new_instance_serves_beside_the_old_one_and_the_old_one_again_when_it_goes(tmp_path: Path) -> None:
    registry = PluginRegistry()
    old, new = DriverServer(tmp_path, NAME, suffix="-a"), DriverServer(tmp_path, NAME, suffix="-b")
    await old.start()
    async with node(tmp_path, registry):
        await until(connected(registry))
        await new.start()
        await until(connected(registry, 2))
        await registry.get(NAME).client.prepare([CLAIM])
        await new.stop()
        await until(connected(registry, 1))
        await registry.get(NAME).client.prepare([CLAIM])
        assert (len(old.calls), len(new.calls)) == (1, 1)
        await old.stop()


async def test_a_driver_killed_without_clean_up_counts_as_disconnected_until_it_is_back(tmp_path: Path) -> None:
    registry = PluginRegistry()
    driver = DriverServer(tmp_path, NAME)
    await driver.start()
    async with node(tmp_path, registry):
        await until(connected(registry))
        await driver._servers[0].stop(None)
        await until(connected(registry, 0))
        assert registry.drivers() == (NAME,)
        await driver.stop()
        again = DriverServer(tmp_path, NAME)
        await again.start()
        # The earlier registration may find the new driver's socket before that one has registered itself.
        await until(lambda: connected(registry)() and bool(again.told))
        assert again.told == [(True, "")]
        await again.stop()


@pytest.mark.parametrize(
    ("kind", "versions", "text"),
    [
        ("CSIPlugin", ("1.0.0",), "no handler registered for plugin type: CSIPlugin at socket"),
        ("DRAPlugin", ("1.0.0",), "plugin validation failed with err: invalid supported gRPC versions of DRA driver"),
    ],
)
async def test_a_plugin_that_cannot_be_used_is_told_why_and_asked_again(
    tmp_path: Path, kind: str, versions: tuple[str, ...], text: str
) -> None:
    registry = PluginRegistry()
    driver = DriverServer(tmp_path, NAME, kind=kind, versions=versions)
    await driver.start()
    async with node(tmp_path, registry):
        await until(lambda: len(driver.told) >= 2)
        registered, why = driver.told[0]
        assert not registered
        assert why.startswith("RegisterPlugin error -- ")
        assert text in why
        assert registry.drivers() == ()
    await driver.stop()


@pytest.mark.parametrize(
    ("name", "endpoint", "told"),
    [
        ("../../../evil", None, r"invalid name of DRA driver plugin: .*subdomain"),
        ("red\x1b[31m.example.com", None, r"invalid name of DRA driver plugin: [ -~]*$"),
        ("a" * 64, None, r"invalid name of DRA driver plugin: .*Too long"),
        (NAME, "/etc/passwd", r'invalid endpoint "/etc/passwd": it must be below '),
        (NAME, "plugins/../../outside.sock", r"invalid endpoint .*: it must be below "),
        (NAME, "link/outside.sock", r"invalid endpoint .*: it must be below "),
    ],
)
async def test_a_plugin_with_an_invalid_name_or_an_endpoint_elsewhere_is_refused(
    tmp_path: Path, name: str, endpoint: str | None, told: str
) -> None:
    registry = PluginRegistry()
    driver = DriverServer(tmp_path, NAME)
    driver.name = name
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "link").symlink_to("/run")
    if endpoint is not None:
        driver.announced = tmp_path / endpoint if not endpoint.startswith("link") else tmp_path / "plugins" / endpoint
    async with node(tmp_path, registry):
        await driver.start()
        await until(lambda: bool(driver.told))
        assert registry.drivers() == ()
    registered, error = driver.told[0]
    assert not registered
    assert re.match(f"RegisterPlugin error -- plugin validation failed with err: {told}", error), error


def test_the_error_for_unknown_services_names_both_sides() -> None:
    with pytest.raises(RegistrationError) as caught:
        choose_services(NAME, "/e.sock", ("1.0.0",))
    assert str(caught.value) == (
        f"invalid supported gRPC versions of DRA driver plugin {NAME} at endpoint /e.sock: none of services supported "
        "by the plugin ([1.0.0]) are supported by the kubelet ([v1.DRAPlugin v1beta1.DRAPlugin])"
    )


@pytest.mark.parametrize(("release", "wanted"), [("1.33", "v1beta1.DRAPlugin"), ("1.34", "v1.DRAPlugin")])
def test_a_node_calls_what_a_kubelet_of_its_release_calls(release: str, wanted: str) -> None:
    known = services_of(FeatureGates.for_release(release))
    assert choose_services(NAME, "/e", ("v1.DRAPlugin", "v1beta1.DRAPlugin"), known) == (wanted, None)


@pytest.mark.parametrize(
    ("release", "offered", "wanted"),
    [
        ("1.31", ("1.0.0",), "1.0.0"),
        ("1.33", ("1.0.0",), "1.0.0"),
        ("1.33", ("v1alpha3.NodeService", "v1beta1.DRAPlugin"), "v1alpha3.NodeService"),
    ],
)
def test_nodes_until_133_call_drivers_that_name_no_service(release: str, offered: tuple[str, ...], wanted: str) -> None:
    assert choose_services(NAME, "/e", offered, services_of(FeatureGates.for_release(release)))[0] == wanted


def test_a_node_of_131_takes_no_driver_that_names_services() -> None:
    with pytest.raises(RegistrationError):
        choose_services(NAME, "/e", ("v1beta1.DRAPlugin",), services_of(FeatureGates.for_release("1.31")))


def test_the_newest_health_service_is_chosen() -> None:
    offered = ("v1.DRAPlugin", "v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth")
    assert choose_services(NAME, "/e", offered) == ("v1.DRAPlugin", "v1.DRAResourceHealth")
    assert choose_services(NAME, "/e", offered[:1]) == ("v1.DRAPlugin", None)


async def test_health_reports_arrive_and_are_forgotten_with_the_driver(tmp_path: Path) -> None:
    registry = PluginRegistry()
    clock = SystemClock()
    cache = HealthCache(clock, GATES)
    changes: list[set[tuple[str, str]]] = []
    follower = HealthFollower(cache, registry, clock, lambda _, devices: changes.append(devices))
    async with beside(follower.run()):
        driver = DriverServer(tmp_path, NAME, versions=("v1.DRAPlugin", "v1.DRAResourceHealth"))
        device = health.DeviceIdentifier(pool_name="n1", device_name="gpu-0")
        report = health.DeviceHealth(device=device, health=health.UNHEALTHY, message="x" * 2000)
        driver.reports.append(health.NodeWatchResourcesResponse(devices=[report]))
        await driver.start()
        async with node(tmp_path, registry):
            await until(lambda: bool(changes))
            state, message = cache.of(NAME, "n1", "gpu-0")
            assert state is DeviceCondition.UNHEALTHY
            assert message == "x" * 1021 + "..."
            await driver.stop()
            await until(lambda: len(changes) == 2)
            assert cache.of(NAME, "n1", "gpu-0") == (DeviceCondition.UNKNOWN, "")


@asynccontextmanager
async def counting(socket: Path, behind: Path) -> AsyncIterator[list[int]]:
    """Hand connections at ``socket`` on to the one ``behind``; each is counted."""
    accepted: list[int] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(len(accepted))
        inner_reader, inner_writer = await asyncio.open_unix_connection(behind)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer), return_exceptions=True)

    server = await asyncio.start_unix_server(accept, socket)
    try:
        yield accepted
    finally:
        server.close()


@pytest.mark.parametrize("with_health", [False, True])
async def test_two_pods_one_after_the_other_need_one_connection(tmp_path: Path, with_health: bool) -> None:
    """N14 of docs/spec/driver-sdk.md §20; the health stream goes over the same connection."""
    registry, clock = PluginRegistry(), SystemClock()
    cache = HealthCache(clock, GATES)
    async with beside(HealthFollower(cache, registry, clock, lambda *_: None).run()):
        driver = DriverServer(tmp_path, NAME, versions=("v1.DRAPlugin", "v1.DRAResourceHealth")[: 1 + with_health])
        device = health.DeviceIdentifier(pool_name="n1", device_name="gpu-0")
        if with_health:
            report = health.DeviceHealth(device=device, health=health.HEALTHY)
            driver.reports.append(health.NodeWatchResourcesResponse(devices=[report]))
        driver.announced = tmp_path / "plugins" / "counted.sock"
        driver.announced.parent.mkdir()
        async with counting(driver.announced, driver.socket) as accepted:
            await driver.start()
            async with node(tmp_path, registry):
                await until(connected(registry))
                if with_health:
                    await until(lambda: cache.of(NAME, "n1", "gpu-0")[0] is DeviceCondition.HEALTHY)
                for claim in (CLAIM, ClaimReference("default", "u2", "c2")):
                    client = registry.get(NAME).client
                    await client.prepare([claim])
                    await client.unprepare([claim])
            assert [verb for verb, _ in driver.calls] == ["prepare v1", "unprepare v1"] * 2
            assert accepted == [0]
            await driver.stop()


async def test_a_call_outlives_its_connection_with_an_error_and_not_by_being_cancelled(tmp_path: Path) -> None:
    clock = SystemClock()
    client = GRPCPluginClient(
        NAME,
        str(tmp_path / "nobody.sock"),
        PluginServices("v1.DRAPlugin"),
        clock=clock,
        metrics=NodeMetrics(clock),
    )
    call = asyncio.ensure_future(client.unprepare([CLAIM]))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(PluginCallError, match="code = Canceled"):
        await call

    mine = asyncio.ensure_future(client.unprepare([CLAIM]))
    mine.cancel()
    with pytest.raises(asyncio.CancelledError):
        await mine


# Sockets that appear in and vanish from the registration directory.

Change = tuple[str, int | None]


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@asynccontextmanager
async def watching(root: Path) -> AsyncIterator[asyncio.Queue[Change]]:
    changes: asyncio.Queue[Change] = asyncio.Queue()
    watcher = SocketWatcher(root, lambda path, number: changes.put_nowait((path.name, number)), clock=SystemClock())
    async with beside(watcher.run()):
        async with asyncio.timeout(120):
            yield changes


@pytest.fixture(params=["told by the kernel", "looked for"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "looked for":

        def none() -> None:
            raise OSError("no inotify")

        monkeypatch.setattr(registration, "Inotify", none)


@pytest.mark.usefixtures("way")
async def test_sockets_are_reported_as_they_come_and_go(tmp_path: Path) -> None:
    listen(tmp_path / "a.sock")
    async with watching(tmp_path) as changes:
        assert await changes.get() == ("a.sock", 1)
        listen(tmp_path / "b")
        assert await changes.get() == ("b", 2)
        (tmp_path / "a.sock").unlink()
        assert await changes.get() == ("a.sock", None)


@pytest.mark.usefixtures("way")
async def test_a_socket_in_a_new_directory_is_found(tmp_path: Path) -> None:
    async with watching(tmp_path) as changes:
        (tmp_path / "deep" / "er").mkdir(parents=True)
        listen(tmp_path / "deep" / "er" / "x.sock")
        assert await changes.get() == ("x.sock", 1)


async def test_files_and_hidden_names_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "file.sock").write_text("")
    (tmp_path / ".hidden").mkdir()
    listen(tmp_path / ".a.sock")
    listen(tmp_path / ".hidden" / "b.sock")
    listen(tmp_path / "c.sock")
    async with watching(tmp_path) as changes:
        assert await changes.get() == ("c.sock", 1)
        assert changes.empty()


async def test_a_socket_that_was_made_again_is_another(tmp_path: Path) -> None:
    listen(tmp_path / "a.sock")
    async with watching(tmp_path) as changes:
        assert await changes.get() == ("a.sock", 1)
        (tmp_path / "a.sock").unlink()
        listen(tmp_path / "a.sock")

        while (last := await changes.get()) == ("a.sock", None):
            pass
        assert last == ("a.sock", 2)


@pytest.mark.usefixtures("way")
async def test_sockets_are_found_in_a_directory_that_was_removed_and_made_again(tmp_path: Path) -> None:
    root = tmp_path / "plugins_registry"
    async with watching(root) as changes:
        await asyncio.sleep(0)
        listen(root / "a.sock")
        assert await changes.get() == ("a.sock", 1)
        shutil.rmtree(root)
        assert await changes.get() == ("a.sock", None)
        root.mkdir(exist_ok=True)
        listen(root / "a.sock")
        assert await changes.get() == ("a.sock", 2)


async def test_a_socket_that_is_moved_away_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "plugins_registry"
    root.mkdir()
    listen(root / "a.sock")
    async with watching(root) as changes:
        assert await changes.get() == ("a.sock", 1)
        (root / "a.sock").rename(tmp_path / "elsewhere")
        assert await changes.get() == ("a.sock", None)
