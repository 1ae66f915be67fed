"""What is done with an exception that no plugin should raise.

A defect that one pod hits must not stop the others: it is logged, worded as the error of that attempt, and the pod is
tried again. That includes a CancelledError that a plugin raised by itself; one that was sent to the running task is
the end of the scheduler, and passes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from cathedra.scheduler.framework.status import Status, error

__all__ = ["DEFECTS", "defect_status"]

DEFECTS: Final = (Exception, asyncio.CancelledError)
"""What to catch around a plugin; `defect_status` sorts out what has to pass."""


def defect_status(defect: BaseException, log: logging.Logger, text: str, *values: object) -> Status:
    """The error that ``defect`` is for the attempt that hit it; it is logged with ``text`` and where it came from.

    Raises:
        CancelledError: the running task is being cancelled, which is no defect and is not logged.
    """
    task = asyncio.current_task()
    if isinstance(defect, asyncio.CancelledError) and task is not None and task.cancelling():
        raise defect
    log.error(text, *values, exc_info=defect)
    return error(f"{type(defect).__name__}: {defect}")
