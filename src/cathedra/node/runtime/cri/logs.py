"""Logs of containers that a runtime writes: begun anew when they have grown too large.

docs/spec/node.md §17.10. The file is renamed as the container shim renames its own, and the runtime is asked to open
another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cathedra._proto import cri_v1_pb2 as api
from cathedra.node.runtime.cri.configuration import LOG
from cathedra.node.runtime.cri.endpoint import CRIEndpoint, CRIError
from cathedra.node.shim.logfile import ROTATE_BYTES, rotate_files

__all__ = ["LogRotation"]


class LogRotation:
    """Rotates the logs of running containers."""

    def __init__(self, endpoint: CRIEndpoint) -> None:
        self._endpoint = endpoint

    async def look(self, containers: Iterable[Any]) -> None:
        """Rotate those logs of running containers that have grown too large."""
        for container in containers:
            path = container.annotations.get(LOG, "")
            if container.state != api.CONTAINER_RUNNING or not path:
                continue
            if await asyncio.to_thread(_rotated, Path(path)):
                await self._reopen(container.id)

    async def _reopen(self, container_id: str) -> None:
        # It may have ended meanwhile; then nothing more is written.
        with contextlib.suppress(CRIError):
            request = api.ReopenContainerLogRequest(container_id=container_id)
            await self._endpoint.call("ReopenContainerLog", request)


def _rotated(file: Path) -> bool:
    with contextlib.suppress(OSError):
        if file.stat().st_size >= ROTATE_BYTES:
            rotate_files(file)
            return True
    return False
