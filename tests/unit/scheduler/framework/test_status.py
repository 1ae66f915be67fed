"""What plugins answer."""

from __future__ import annotations

import asyncio
import logging

import pytest

from cathedra.clock import run_virtual
from cathedra.scheduler.framework.status import DEFECTS, Code, Status, defect_status, error, unresolvable, unschedulable
from tests.running import on_virtual_clock


@pytest.mark.parametrize(
    ("status", "rejected"),
    [
        (unschedulable("no"), True),
        (unresolvable("never"), True),
        (Status(Code.PENDING), True),
        (Status(Code.SKIP), False),
        (error("broken"), False),
    ],
)
def test_refusals_are_told_from_what_broke(status: Status, rejected: bool) -> None:
    assert status.rejected is rejected


def test_reasons_are_one_text() -> None:
    assert unschedulable("Insufficient cpu", "Too many pods").message == "Insufficient cpu, Too many pods"


def test_the_first_signature_stands() -> None:
    signed = unschedulable("no").of("Fit")
    assert signed.plugin == "Fit"
    assert signed.of("Other") is signed


LOG = logging.getLogger("cathedra.scheduler")


@on_virtual_clock
async def test_a_defect_is_an_error_of_the_attempt_that_hit_it_and_is_logged(
    *, caplog: pytest.LogCaptureFixture
) -> None:
    defect = KeyError("devices")
    status = defect_status(defect, LOG, "%s broke", "this")
    [record] = caplog.records
    assert (record.getMessage(), record.exc_info is not None and record.exc_info[1]) == ("this broke", defect)
    assert (status.code, status.message) == (Code.ERROR, "KeyError: 'devices'")


@on_virtual_clock
async def test_a_cancellation_that_a_plugin_raised_itself_is_a_defect_like_others() -> None:
    assert defect_status(asyncio.CancelledError("odd"), LOG, "broke").message == "CancelledError: odd"


def test_the_cancellation_of_the_running_task_passes_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except DEFECTS as defect:
            defect_status(defect, LOG, "broke")

    async def main() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(main())
    assert caplog.records == []
