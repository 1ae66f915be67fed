"""Status: the result of a plugin, which is a refusal, an error, Skip, Pending or Wait.

The codes are kube-scheduler's (docs/spec/scheduling.md §1). Success is ``None``, because a filter returns it a hundred
thousand times a second. Exceptions of plugins become errors (`defect_status`).
"""

from __future__ import annotations

import asyncio
import enum
import logging
from typing import Final

import msgspec
from msgspec.structs import replace


class Code(enum.Enum):
    """Kind of a result other than success."""

    ERROR = "Error"
    """An error; the pod is tried again after its back-off."""
    UNSCHEDULABLE = "Unschedulable"
    """The pod does not fit now; evicting others may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """The pod does not fit, and evicting others would not help."""
    SKIP = "Skip"
    """The plugin has nothing to do for this pod in this cycle."""
    PENDING = "Pending"
    """The pod waits for something outside the scheduler; this is no failure."""
    WAIT = "Wait"
    """The pod may have its node, but not before others have theirs. Only Permit returns it."""


_ERROR, _SKIP, _UNRESOLVABLE = Code.ERROR, Code.SKIP, Code.UNSCHEDULABLE_AND_UNRESOLVABLE
"""Read for every pod; reading them off their class takes 0.5 µs."""


class Status(msgspec.Struct, frozen=True):
    """One answer: a code, the reasons that people will read, and the plugin that gave it."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        """The reasons as one text."""
        return ", ".join(self.reasons)

    @property
    def rejected(self) -> bool:
        """True if the pod was refused, False for an error."""
        return self.code is not _ERROR and self.code is not _SKIP

    def of(self, plugin: str) -> Status:
        """Return the same status, signed by ``plugin`` unless it is signed already."""
        return self if self.plugin else replace(self, plugin=plugin)


def unschedulable(*reasons: str) -> Status:
    """Return the status of a pod that does not fit, where evicting others may help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return the status of a pod that does not fit, where evicting others would not help."""
    return Status(_UNRESOLVABLE, reasons)


def error(reason: str) -> Status:
    """Return the status of an internal error."""
    return Status(Code.ERROR, (reason,))


# --- exceptions of plugins


DEFECTS: Final = (Exception, asyncio.CancelledError)
"""Exceptions to catch around a plugin; `defect_status` raises those again that must not be caught."""


def defect_status(defect: BaseException, log: logging.Logger, text: str, *values: object) -> Status:
    """Return ``defect`` as an error of the attempt that hit it, and log it with ``text`` and its traceback.

    Raises:
        CancelledError: the running task is being cancelled, which is no defect and is not logged.
    """
    task = asyncio.current_task()
    if isinstance(defect, asyncio.CancelledError) and task is not None and task.cancelling():
        raise defect
    log.error(text, *values, exc_info=defect)
    return error(f"{type(defect).__name__}: {defect}")
