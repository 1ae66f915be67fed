"""Plugins with informers of their own, which follow them and wake pods.

Informers call handlers in the order in which they were added. Plugins come before the queue's own event handlers, so
that a plugin's state is up to date when a pod is woken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cathedra.client.informer import SharedInformers
from cathedra.scheduler.framework.events import Change

__all__ = ["InformedPlugin", "Notify"]

Notify = Callable[[Change], None]
"""Tells the queue of a change."""


class InformedPlugin(Protocol):
    """A plugin that keeps state of its own from informers."""

    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Add handlers; called once, before the first pod is taken."""
        ...
