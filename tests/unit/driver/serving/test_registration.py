"""The handshake with the node agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.clock import run_virtual
from cathedra.driver.errors import OptionError, RegistrationFailed
from cathedra.driver.serving.registration import (
    DRA_OF_131,
    DRA_V1,
    DRA_V1BETA1,
    HEALTH_V1,
    SERVICES,
    PluginInfo,
    Registration,
    socket_paths,
    supported_services,
)
from tests.running import run_with

INFO = PluginInfo("gpu.example.com", "/dra.sock", (DRA_V1,))


def in_virtual_time(body: Callable[[Registration], Awaitable[None]]) -> None:
    async def main() -> None:
        await body(Registration(INFO))

    run_virtual(main())


@pytest.mark.parametrize(
    ("wanted", "health", "announced"),
    [
        (SERVICES, True, SERVICES),
        (SERVICES, False, (DRA_V1, DRA_V1BETA1)),
        ((DRA_V1BETA1,), True, (DRA_V1BETA1,)),
        ((HEALTH_V1, DRA_V1), True, (HEALTH_V1, DRA_V1)),
        ((HEALTH_V1, DRA_V1), False, (DRA_V1,)),
        ((DRA_OF_131,), False, (DRA_OF_131,)),
    ],
)
def test_services_of_health_are_announced_if_it_is_reported(
    wanted: tuple[str, ...], health: bool, announced: tuple[str, ...]
) -> None:
    assert supported_services(wanted, health=health) == announced


def test_a_driver_serves_claims_by_a_service_that_exists() -> None:
    with pytest.raises(OptionError, match="no supported DRA gRPC API is implemented and enabled"):
        supported_services((HEALTH_V1,), health=True)
    with pytest.raises(OptionError, match=r"unknown gRPC services \['v2.DRAPlugin'\]"):
        supported_services(("v2.DRAPlugin", DRA_V1), health=True)


@run_with(in_virtual_time)
async def test_every_attempt_is_counted_and_told_the_same(registration: Registration) -> None:
    assert registration.registered is None
    assert registration.get_info() is registration.get_info() is INFO
    assert registration.attempts == 2
    assert INFO.type == "DRAPlugin"


@run_with(in_virtual_time)
async def test_who_waits_hears_of_the_registration(registration: Registration) -> None:
    waiting = asyncio.create_task(registration.wait_registered(10, "/plugins"))
    await asyncio.sleep(5)
    registration.notify(registered=True, error="")
    await waiting
    assert asyncio.get_running_loop().time() == 5


@run_with(in_virtual_time)
async def test_a_refusal_is_understood_and_may_be_followed_by_another_attempt(registration: Registration) -> None:
    waiting = asyncio.create_task(registration.wait_registered(10, "/plugins"))
    await asyncio.sleep(1)
    with pytest.raises(RegistrationFailed, match="failed registration process: name taken"):
        registration.notify(registered=False, error="name taken")
    assert (registration.registered, registration.error) == (False, "name taken")
    await asyncio.sleep(1)
    assert not waiting.done()
    registration.notify(registered=True, error="")
    await waiting


@pytest.mark.parametrize(
    ("refused", "why"), [("", "no node agent has looked at /plugins"), ("name taken", "name taken")]
)
@run_with(in_virtual_time)
async def test_waiting_ends_with_what_is_known(registration: Registration, *, refused: str, why: str) -> None:
    if refused:
        with pytest.raises(RegistrationFailed):
            registration.notify(registered=False, error=refused)
    with pytest.raises(RegistrationFailed, match=f"not registered within 10 s: {why}"):
        await registration.wait_registered(10, "/plugins")
    assert asyncio.get_running_loop().time() == 10


@run_with(in_virtual_time)
async def test_a_change_sets_the_event_that_was_waited_for(registration: Registration) -> None:
    before = registration.changed()
    registration.notify(registered=True, error="")
    assert before.is_set()
    assert not registration.changed().is_set()


PLUGINS, REGISTRY = Path("/var/lib/kubelet/plugins"), Path("/var/lib/kubelet/plugins_registry")
UID = "0d6b1f0e-8c3f-4c55-9f0d-0a6a4ba0f7a1"


def test_usual_names() -> None:
    paths = socket_paths("gpu.example.com", PLUGINS / "gpu.example.com", REGISTRY)
    assert str(paths.service) == "/var/lib/kubelet/plugins/gpu.example.com/dra.sock"
    assert str(paths.registration) == "/var/lib/kubelet/plugins_registry/gpu.example.com-reg.sock"


def test_names_during_a_rolling_update_carry_the_pods_uid() -> None:
    paths = socket_paths("gpu.example.com", PLUGINS / "gpu.example.com", REGISTRY, UID)
    assert paths.service.name == f"dra-{UID}.sock"
    assert paths.registration.name == f"gpu.example.com-{UID}-reg.sock"


@given(st.integers(1, 63))
def test_long_names_are_hashed_until_they_fit(length: int) -> None:
    """The address of a socket has 108 bytes with its last null (kubernetes/kubernetes#142003, #141815)."""
    driver = "d" * length
    paths = socket_paths(driver, PLUGINS / driver, REGISTRY, UID)
    assert len(str(paths.service)) < 108
    assert len(str(paths.registration)) < 108
    assert paths == socket_paths(driver, PLUGINS / driver, REGISTRY, UID)


def test_directory_that_is_too_long_is_named() -> None:
    with pytest.raises(OptionError, match="choose a shorter directory"):
        socket_paths("gpu.example.com", Path("/" + "x" * 120), REGISTRY)
