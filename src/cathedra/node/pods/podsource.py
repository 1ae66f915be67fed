"""Where a node learns of its pods: a protocol, and an informer as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cathedra.api.core.core_v1 import Pod
from cathedra.api.undecodable import Undecodable
from cathedra.client.informer import Informer

__all__ = ["InformerPods", "PodSource"]


class PodSource(Protocol):
    """Where a node learns of its pods."""

    def follow(
        self,
        on_change: Callable[[Pod], None],
        on_delete: Callable[[Pod], None],
        on_undecodable: Callable[[Undecodable], None],
        on_resolved: Callable[[Undecodable, Pod | None], None],
    ) -> Callable[[], None]:
        """Hear of every pod of the node, those that are there at once; answers how to stop.

        A pod whose present version cannot be decoded is reported as such, not as deleted; later as one that can be
        decoded, or has gone (`cathedra.client.informer.Handler`).
        """
        ...

    async def wait_synced(self) -> None:
        """Wait until the pods that are there have been reported."""
        ...


class InformerPods:
    """The pods of an informer that only follows this node's."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self._informer = informer
        self._followed = True

    def follow(
        self,
        on_change: Callable[[Pod], None],
        on_delete: Callable[[Pod], None],
        on_undecodable: Callable[[Undecodable], None],
        on_resolved: Callable[[Undecodable, Pod | None], None],
    ) -> Callable[[], None]:
        """Hear of every pod; the handlers live as long as the informer, and are deaf after the end."""
        self._informer.add_handler(
            on_add=lambda pod: on_change(pod) if self._followed else None,
            on_update=lambda _, pod: on_change(pod) if self._followed else None,
            on_delete=lambda pod: on_delete(pod) if self._followed else None,
            on_undecodable=lambda what: on_undecodable(what) if self._followed else None,
            on_resolved=lambda what, pod: on_resolved(what, pod) if self._followed else None,
        )

        def stop() -> None:
            self._followed = False

        return stop

    async def wait_synced(self) -> None:
        """Wait for the first list."""
        await self._informer.wait_synced()
