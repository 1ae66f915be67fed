"""What a container leaves behind when it ends: its termination message (docs/spec/node.md §17.7)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from cathedra.api.core.core_v1 import Container
from cathedra.node.runtime.runtime import ContainerRun
from cathedra.node.setup.directories import PodDirectories

__all__ = ["with_termination_message"]

_MAX_MESSAGE: Final = 4096
_MAX_FROM_LOG: Final = 2048
_MAX_LINES: Final = 80


def with_termination_message(directories: PodDirectories, container: Container, state: ContainerRun) -> ContainerRun:
    """``state`` with the container's message: from its file, or where its policy says so from the end of its log."""
    text = _read(directories.termination_log(container.name, state.attempt), _MAX_MESSAGE)
    if not text and container.termination_message_policy == "FallbackToLogsOnError" and state.exit_code:
        text = _log_end(directories.log(container.name, state.attempt))
    return replace(state, message=text) if text else state


def _read(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""


def _log_end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4 * _MAX_FROM_LOG))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    texts = [line.split(" ", 3)[3] for line in lines if line.count(" ") >= 3]
    return "\n".join(texts[-_MAX_LINES:])[-_MAX_FROM_LOG:]
