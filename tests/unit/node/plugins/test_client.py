"""What a driver looks like from the node agent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from cathedra.node.plugins.client import (
    CALL_TIMEOUT,
    ClaimReference,
    DeviceCondition,
    LimitedPlugin,
    PluginCallError,
    PluginDevice,
    PluginError,
    PluginNotRegistered,
    PrepareOutcome,
    RegistrationError,
    ReportedHealth,
)
from tests.running import on_virtual_clock


def test_a_failed_call_reads_like_gos_grpc() -> None:
    """Operators look for these words in the events of pods."""
    error = PluginCallError("Unavailable", "connection refused")
    assert (error.code, error.description) == ("Unavailable", "connection refused")
    assert str(error) == "rpc error: code = Unavailable desc = connection refused"


def test_a_device_that_names_no_request_serves_all_and_is_not_shared() -> None:
    device = PluginDevice("pool", "gpu-0")
    assert (device.request_names, device.cdi_device_ids, device.share_id) == ((), (), None)
    assert PluginDevice("pool", "gpu-0", share_id="") != device, "an empty share ID is one"


def test_an_outcome_is_devices_or_an_error() -> None:
    assert PrepareOutcome().error == ""
    assert PrepareOutcome(error="broken").devices == ()


def test_claims_are_told_apart_by_all_three_parts() -> None:
    claim = ClaimReference("ns", "u", "c")
    assert claim == ("ns", "u", "c")
    assert len({claim, ClaimReference("ns", "u", "c"), ClaimReference("ns", "v", "c")}) == 2


def test_health_has_kubernetes_words_and_the_default_time_unless_it_says_another() -> None:
    assert [health.value for health in DeviceCondition] == ["Unknown", "Healthy", "Unhealthy"]
    assert ReportedHealth("p", "d", DeviceCondition.HEALTHY).timeout <= 0


def test_what_is_wrong_with_a_driver_is_of_one_family_and_a_failed_call_is_not() -> None:
    assert issubclass(PluginNotRegistered, PluginError)
    assert issubclass(RegistrationError, PluginError)
    assert not issubclass(PluginCallError, PluginError)


def test_a_driver_that_is_not_there_is_a_failed_lookup() -> None:
    assert issubclass(PluginNotRegistered, LookupError)
    assert not issubclass(RegistrationError, LookupError)


CLAIM = ClaimReference("ns", "u", "c")


class Hanging:
    """A driver that serves one call at a time, each for some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.lock = asyncio.Lock()
        self.ended: list[str] = []

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        await self._work("prepare")
        return {claim.uid: PrepareOutcome() for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        await self._work("unprepare")
        return {claim.uid: "" for claim in claims}

    async def _work(self, method: str) -> None:
        async with self.lock:
            try:
                await asyncio.sleep(self.seconds)
            finally:
                self.ended.append(method)


@pytest.mark.parametrize("method", ["prepare", "unprepare"])
@on_virtual_clock
async def test_a_driver_in_the_process_that_hangs_fails_its_call_after_45_seconds_and_serves_the_next(
    *, method: str
) -> None:
    driver = Hanging(3600)
    with pytest.raises(PluginCallError) as failed:
        await getattr(LimitedPlugin(driver), method)([CLAIM])
    assert str(failed.value) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    assert asyncio.get_running_loop().time() == CALL_TIMEOUT
    assert driver.ended == [method]
    driver.seconds = 44
    assert list(await getattr(LimitedPlugin(driver), method)([CLAIM])) == ["u"]


@on_virtual_clock
async def test_a_caller_that_gives_up_cancels_the_call_and_gets_no_error_of_the_driver() -> None:
    driver = Hanging(3600)
    call = asyncio.create_task(LimitedPlugin(driver).prepare([CLAIM]))
    await asyncio.sleep(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (driver.ended, driver.lock.locked()) == (["prepare"], False)


@on_virtual_clock
async def test_a_time_out_of_the_driver_itself_is_no_end_of_the_calls_time() -> None:
    class Impatient(Hanging):
        async def _work(self, method: str) -> None:
            raise TimeoutError("the device did not answer")

    with pytest.raises(TimeoutError, match="the device did not answer"):
        await LimitedPlugin(Impatient(0)).prepare([CLAIM])
