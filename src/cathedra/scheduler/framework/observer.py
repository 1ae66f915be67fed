"""What a profile tells of its plugins, for those who count and measure; `metrics` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["PluginObserver"]


class PluginObserver(Protocol):
    """Hears which plugins ran at which extension points; points and outcomes in kube-scheduler's words."""

    monotonic: Callable[[], float]
    """Seconds that never run backwards."""

    def sampled(self, work: str) -> bool:
        """Whether plugins are to be measured in what begins now: a cycle, a pod's way into the queue, its permit."""
        ...

    def evaluated(self, plugins: tuple[str, ...], point: str, profile: str, times: int = 1) -> None:
        """Each of these plugins has judged a pod, or so many nodes for it."""
        ...

    def ran(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin has run."""
        ...

    def waited_for_devices(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """The binding conditions of a driver's devices came true (``success``), or how they did not."""
        ...
