"""What a plugin with informers of its own has to do: follow them, and wake pods.

Informers call handlers in the order in which they were added. Plugins come before the queue's own intake, so that a
plugin's state is up to date when a pod is woken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cathedra.client.informer import SharedInformers
from cathedra.scheduler.framework.events import Change

__all__ = ["Listener", "Wake"]

Wake = Callable[[Change], None]
"""Tells the queue of a change."""


class Listener(Protocol):
    """Something that follows informers."""

    def listen(self, informers: SharedInformers, wake: Wake) -> None:
        """Add handlers; called once, before the first pod is taken."""
        ...
