"""The state of a container that is being made, as the runtime gives it to a hook."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO


class HookError(Exception):
    """The container cannot be made as it must be; the runtime shows the text."""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """As much of it as hooks need."""

    pid: int
    """PID of the container's first process in the host's namespace."""
    bundle: Path

    def environment(self) -> dict[str, str]:
        """Return the variables of the container.

        Raises:
            HookError: the bundle cannot be read.
        """
        try:
            config: dict[str, Any] = json.loads((self.bundle / "config.json").read_text())
        except (OSError, ValueError) as error:
            raise HookError(f"{self.bundle}/config.json: {error}") from error
        entries = (config.get("process") or {}).get("env") or ()
        return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def read_state(source: TextIO) -> ContainerState:
    """Return the state on the standard input.

    Raises:
        HookError: there is none.
    """
    try:
        state = json.load(source)
        return ContainerState(int(state["pid"]), Path(state.get("bundle", "")))
    except (ValueError, KeyError, TypeError) as error:
        raise HookError(f"no state of a container on the standard input: {error!r}") from error


def fail(program: str, error: Exception) -> NoReturn:
    """End with a line that the runtime shows."""
    print(f"{program}: {error}", file=sys.stderr)
    sys.exit(1)
