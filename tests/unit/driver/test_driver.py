"""The class that drivers derive from."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable

import pytest

from cathedra.driver import Device, Driver, Pool, Prepared, PreparedClaim, Ref
from cathedra.driver.driver import collect, resolve
from cathedra.driver.health import DeviceHealth

PREPARED = Prepared("d", "p", ("r",))
REF = Ref("default", "c", "u")


class Plain(Driver):
    name = "plain.example.com"

    def devices(self) -> Iterable[Device]:
        return [Device("a"), Device("b")]


async def test_devices_make_up_one_pool_in_their_order() -> None:
    pool = await resolve(Plain().resources())
    assert isinstance(pool, Pool)
    assert [device.name for device in pool.devices] == ["a", "b"]


async def test_devices_may_be_looked_for_in_the_background() -> None:
    class Slow(Driver):
        async def devices(self) -> Iterable[Device]:
            return (Device("late"),)

    pool = await resolve(Slow().resources())
    assert isinstance(pool, Pool)
    assert [device.name for device in pool.devices] == ["late"]


async def test_a_driver_that_says_nothing_has_no_devices_and_prepares_nothing() -> None:
    driver = Driver()
    pool = await resolve(driver.resources())
    assert isinstance(pool, Pool)
    assert pool.devices == ()
    assert await collect(driver.prepare(None)) == ()  # type: ignore[arg-type]  # the default reads no claim
    assert driver.common_edits() is None


async def test_preparation_may_be_a_list_a_generator_or_either_of_them_async() -> None:
    def generator() -> Iterable[Prepared]:
        yield PREPARED

    async def later() -> list[Prepared]:
        return [PREPARED]

    async def stream() -> AsyncIterator[Prepared]:
        yield PREPARED

    for preparation in ([PREPARED], generator(), later(), stream()):
        assert await collect(preparation) == (PREPARED,)


async def test_an_interrupted_prepare_is_undone_like_a_finished_one() -> None:
    undone = []

    class Undoing(Driver):
        async def unprepare(self, ref: Ref, prepared: PreparedClaim) -> None:
            undone.append((ref, prepared.complete))

    interrupted = PreparedClaim(REF, (), complete=False)
    await Undoing().rollback(REF, interrupted)  # type: ignore[misc]  # it is async here
    assert undone == [(REF, False)]


def test_health_is_reported_by_drivers_that_override_it() -> None:
    class Watching(Driver):
        def health(self) -> AsyncIterator[Iterable[DeviceHealth]]:
            raise AssertionError("not asked for here")

    assert Watching().reports_health
    assert not Plain().reports_health
    with pytest.raises(NotImplementedError):
        Plain().health()


def test_a_driver_knows_its_node_and_can_have_its_devices_asked_for_again() -> None:
    asked = []
    driver = Plain()
    driver.republish()
    driver.install("node-a", lambda: asked.append(1))
    driver.republish()
    assert (driver.node_name, asked) == ("node-a", [1])


@pytest.mark.parametrize(("recoverable", "level"), [(True, logging.WARNING), (False, logging.ERROR)])
def test_trouble_in_the_background_is_logged(caplog: pytest.LogCaptureFixture, recoverable: bool, level: int) -> None:
    with caplog.at_level(logging.WARNING):
        Plain().on_error(RuntimeError("why"), "what", recoverable=recoverable)
    ((_, found, text),) = caplog.record_tuples
    assert (found, text) == (level, "plain.example.com: what: why")
