"""Health of devices, and its entries in a pod's status (docs/spec/node.md §14)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import Container, ResourceClaim, ResourceHealth, ResourceRequirements
from cathedra.api.struct import replace
from cathedra.clock import LoopClock
from cathedra.node.claims.checkpoint import ClaimInfo, ClaimInfoCache, DriverState
from cathedra.node.plugins import health
from cathedra.node.plugins.client import DeviceCondition, PluginDevice, ReportedHealth
from cathedra.node.plugins.health import HealthCache, HealthFollower
from cathedra.node.plugins.registry import PluginInstance, PluginRegistry
from cathedra.releases import FeatureGates
from tests.costs import costs_less_than
from tests.running import beside, on_virtual_clock
from tests.unit.node.fakes import DRIVER, GATES, make_pod

POD = make_pod("p", claims=["c1"])


def report(device: str, health: DeviceCondition, message: str = "", timeout: float = 0) -> ReportedHealth:
    return ReportedHealth(pool="n1", device=device, health=health, message=message, timeout=timeout)


def held(*devices: PluginDevice) -> ClaimInfoCache:
    cache = ClaimInfoCache()
    cache.add(ClaimInfo("default", "c1", "uid-c1", {"uid-p"}, {DRIVER: DriverState(devices)}))
    return cache


def device(name: str, *requests: str, cdi: str = "") -> PluginDevice:
    return PluginDevice("n1", name, requests, (cdi,) if cdi else ())


@on_virtual_clock
async def test_a_device_counts_as_unknown_when_its_report_is_too_old() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    cache = HealthCache(clock, GATES)
    assert cache.receive(
        DRIVER, [report("a", DeviceCondition.HEALTHY), report("b", DeviceCondition.UNHEALTHY, "hot", 60)]
    ) == {
        ("n1", "a"),
        ("n1", "b"),
    }
    assert cache.receive(DRIVER, [report("a", DeviceCondition.HEALTHY)]) == set(), "the same again is no change"
    await asyncio.sleep(31)
    assert cache.of(DRIVER, "n1", "a") == (DeviceCondition.UNKNOWN, "")
    assert cache.of(DRIVER, "n1", "b") == (DeviceCondition.UNHEALTHY, "hot")
    assert cache.receive(DRIVER, [report("a", DeviceCondition.HEALTHY)]) == {("n1", "a")}, "it is known again"
    assert cache.clear(DRIVER) == {("n1", "a"), ("n1", "b")}
    assert cache.of(DRIVER, "n1", "b") == (DeviceCondition.UNKNOWN, "")


@on_virtual_clock
async def test_devices_that_share_a_cdi_name_have_an_entry_each_and_the_worst_is_first() -> None:
    cache = HealthCache(LoopClock(asyncio.get_running_loop()), GATES)
    healthy = [report(name, DeviceCondition.HEALTHY) for name in ("a", "b", "only-common")]
    cache.receive(DRIVER, [*healthy, report("bad", DeviceCondition.UNHEALTHY, "hot")])
    devices = [
        PluginDevice("n1", name, (), ("x.com/gpu=common", f"x.com/gpu={name}")) for name in ("a", "silent", "bad")
    ]
    claims = held(*devices, device("only-common", cdi="x.com/gpu=common"))
    (whole,) = cache.resource_status(POD, POD.spec.containers[0], claims)
    assert [(r.resource_id, r.health, r.message) for r in whole.resources] == [
        ("x.com/gpu=bad", "Unhealthy", "hot"),
        ("x.com/gpu=silent", "Unknown", None),
        (f"{DRIVER}/n1/only-common", "Healthy", None),
        ("x.com/gpu=a", "Healthy", None),
    ]


@on_virtual_clock
async def test_the_status_has_an_entry_for_each_reference_and_the_devices_of_its_request() -> None:
    cache = HealthCache(LoopClock(asyncio.get_running_loop()), GATES)
    cache.receive(DRIVER, [report("a", DeviceCondition.UNHEALTHY, "x" * 2000)])
    claims = held(device("a", "gpu", cdi="x.com/gpu=a"), device("b", "nic"), device("c"))
    resources = ResourceRequirements(
        claims=(
            ResourceClaim(name="c1"),
            ResourceClaim(name="c1", request="nic"),
            ResourceClaim(name="c1", request="z"),
        )
    )
    container = replace(POD.spec.containers[0], resources=resources)
    whole, nic, z = cache.resource_status(POD, container, claims)
    assert whole.name == "claim:c1"
    assert [(r.resource_id, r.health) for r in whole.resources] == [
        ("x.com/gpu=a", "Unhealthy"),
        (f"{DRIVER}/n1/b", "Unknown"),
        (f"{DRIVER}/n1/c", "Unknown"),
    ]
    assert whole.resources[0].message == "x" * 1021 + "..."
    assert nic.name == "claim:c1/nic"
    assert [r.resource_id for r in nic.resources] == [f"{DRIVER}/n1/b", f"{DRIVER}/n1/c"]
    assert [r.resource_id for r in z.resources] == [f"{DRIVER}/n1/c"], "a device of no request serves all"


@on_virtual_clock
async def test_the_order_of_devices_is_that_of_their_health_and_names() -> None:
    """kubernetes/kubernetes#142340: a driver that lists them in another order causes no write of the status."""
    cache = HealthCache(LoopClock(asyncio.get_running_loop()), GATES)
    cache.receive(DRIVER, [report(name, DeviceCondition.HEALTHY) for name in "abc"])
    container = POD.spec.containers[0]
    orders = [held(*map(device, names)) for names in ("abc", "cab", "bca")]
    assert len({cache.resource_status(POD, container, claims) for claims in orders}) == 1


@on_virtual_clock
async def test_gates_decide_whether_health_and_messages_are_shown() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    claims = held(device("a", "gpu"))
    container: Container = POD.spec.containers[0]
    off = HealthCache(clock, FeatureGates.for_release("1.37", {"ResourceHealthStatus": False}))
    assert off.resource_status(POD, container, claims) == ()
    silent = HealthCache(clock, FeatureGates.for_release("1.37", {"ResourceHealthStatusMessage": False}))
    silent.receive(DRIVER, [report("a", DeviceCondition.HEALTHY, "fine")])
    (status,) = silent.resource_status(POD, container, claims)
    assert status.resources == (ResourceHealth(resource_id=f"{DRIVER}/n1/a", health="Healthy"),)


@on_virtual_clock
async def test_reports_survive_a_restart_and_a_broken_file_is_forgotten(*, tmp_path: Path) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    path = tmp_path / "dra_health_state"
    before = HealthCache(clock, GATES, path)
    before.receive(DRIVER, [report("a", DeviceCondition.UNHEALTHY, "hot", 60)])
    before.save()
    assert HealthCache(clock, GATES, path).of(DRIVER, "n1", "a") == (DeviceCondition.UNHEALTHY, "hot")
    path.write_text("{")
    assert HealthCache(clock, GATES, path).of(DRIVER, "n1", "a") == (DeviceCondition.UNKNOWN, "")


@on_virtual_clock
async def test_a_driver_without_devices_does_not_hide_the_others(*, tmp_path: Path) -> None:
    """Go writes a map that is nil as null."""
    clock = LoopClock(asyncio.get_running_loop())
    path = tmp_path / "dra_health_state"
    before = HealthCache(clock, GATES, path)
    before.receive(DRIVER, [report("a", DeviceCondition.UNHEALTHY, "hot", 60)])
    before.save()
    path.write_text(json.dumps({"a.example.com": {"Devices": None}, **json.loads(path.read_text())}))
    assert HealthCache(clock, GATES, path).of(DRIVER, "n1", "a") == (DeviceCondition.UNHEALTHY, "hot")


@on_virtual_clock
async def test_devices_that_cannot_be_published_and_too_many_of_them_are_ignored(
    *, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "MOST_DEVICES", 10)
    cache = HealthCache(LoopClock(asyncio.get_running_loop()), GATES)
    long = [report("x" * 64, DeviceCondition.UNHEALTHY), ReportedHealth("p" * 254, "a", DeviceCondition.UNHEALTHY)]
    assert cache.receive(DRIVER, [*long, report("", DeviceCondition.UNHEALTHY)]) == set()
    first = cache.receive(DRIVER, [report(f"a{n}", DeviceCondition.UNHEALTHY) for n in range(20)])
    assert first == {("n1", f"a{n}") for n in range(10)}
    assert cache.of(DRIVER, "n1", "a5")[0] is DeviceCondition.UNHEALTHY
    await asyncio.sleep(60)
    later = cache.receive(DRIVER, [report(f"b{n}", DeviceCondition.UNHEALTHY) for n in range(20)])
    assert later == {("n1", f"b{n}") for n in range(10)}, "reports that are too old give way"


@on_virtual_clock
async def test_devices_beyond_the_limit_cost_no_search_of_all_reports_each() -> None:
    cache = HealthCache(LoopClock(asyncio.get_running_loop()), GATES)
    cache.receive(DRIVER, [report(f"a{n}", DeviceCondition.HEALTHY) for n in range(health.MOST_DEVICES)])
    with costs_less_than(2.0):  # it was a minute
        assert cache.receive(DRIVER, [report(f"b{n}", DeviceCondition.HEALTHY) for n in range(50_000)]) == set()


def test_many_messages_are_written_to_the_state_file_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(health, "write_atomic", lambda path, content: written.append(content))

    async def body() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        registry = PluginRegistry()
        cache = HealthCache(clock, GATES, tmp_path / "dra_health_state")
        client = Reporting(
            [[report(f"d{n}", DeviceCondition.HEALTHY, f"message {m}") for n in range(1000)] for m in range(100)]
        )
        async with beside(HealthFollower(cache, registry, clock, lambda *_: None).run()):
            await asyncio.sleep(0)
            registry.add(PluginInstance(DRIVER, "in-process", client, client, connected=True))  # type: ignore[arg-type]
            async with asyncio.timeout(60):
                await client.done.wait()

    asyncio.run(body())
    assert 1 <= len(written) <= 3
    assert b"message 99" in written[-1]
    assert len(written[-1]) < 1000 * 300


class Reporting:
    """A driver that sends some reports, and then none."""

    def __init__(self, reports: list[list[ReportedHealth]]) -> None:
        self._reports = reports
        self.done = asyncio.Event()

    async def watch_health(self) -> AsyncIterator[tuple[ReportedHealth, ...]]:
        for one in self._reports:
            await asyncio.sleep(0)
            yield tuple(one)
        self.done.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "content", ["null", '{"d": {"Devices": null}}', '{"d": null}', '{"d": {"Devices": {"x": null}}}']
)
@on_virtual_clock
async def test_a_state_file_with_nulls_is_read_as_an_empty_one(*, tmp_path: Path, content: str) -> None:
    """kubernetes/kubernetes#140904."""
    path = tmp_path / "dra_health_state"
    path.write_text(content)
    cache = HealthCache(LoopClock(asyncio.get_running_loop()), GATES, path)
    assert cache.of("d", "n1", "a") == (DeviceCondition.UNKNOWN, "")
    assert cache.receive("d", [report("a", DeviceCondition.HEALTHY)]) == {("n1", "a")}
