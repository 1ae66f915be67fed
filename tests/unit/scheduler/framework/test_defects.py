"""Exceptions that no plugin should raise."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.clock import run_virtual
from cathedra.scheduler.framework.defects import DEFECTS, defect_status
from cathedra.scheduler.framework.status import Code


def test_a_defect_is_an_error_of_the_attempt_that_hit_it() -> None:
    async def main() -> None:
        status = defect_status(KeyError("devices"))
        assert (status.code, status.message) == (Code.ERROR, "KeyError: 'devices'")

    run_virtual(main())


def test_a_cancellation_that_a_plugin_raised_itself_is_a_defect_like_others() -> None:
    async def main() -> None:
        assert defect_status(asyncio.CancelledError("odd")).message == "CancelledError: odd"

    run_virtual(main())


def test_the_cancellation_of_the_running_task_passes() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except DEFECTS as defect:
            defect_status(defect)

    async def main() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(main())
