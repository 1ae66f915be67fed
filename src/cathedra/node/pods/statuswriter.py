"""Writing a pod's status to the API server, whenever it has changed.

Only this node writes it, but others change the object's metadata and conditions meanwhile; then the write is repeated
on top of what they have written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from cathedra.api.core.core_v1 import Pod, PodStatus, ResourceStatus
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import PODS
from cathedra.node.pods.admission import Rejection
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.podstate import PodState
from cathedra.node.pods.status import PodView, pod_status, rejected_status
from cathedra.node.setup.launch import identity_of
from cathedra.semantics.pods import is_terminal

__all__ = ["StatusWriter", "newer"]

"""Phases that a pod does not leave."""

_CONFLICTS: Final = 5
_LOG = logging.getLogger(__name__)


class StatusWriter:
    """Writes the status of one pod; ``on_pod`` hears of newer versions of the object that are found on the way."""

    def __init__(self, state: PodState, context: PodContext, on_pod: Callable[[Pod], None]) -> None:
        self._state = state
        self._context = context
        self._on_pod = on_pod

    async def publish(self, *, final: bool = False) -> bool:
        """Write the status if it has changed; whether the API server now has it.

        ``final``: the pod is over and has let go of everything, so its phase becomes terminal.
        """
        return await self._write(lambda: self._status(final=final))

    async def publish_rejection(self, rejection: Rejection) -> bool:
        """Write that the node does not take the pod; whether the API server now has it."""
        return await self._write(lambda: rejected_status(self._state.pod, self._context.clock.now(), rejection))

    async def _write(self, make: Callable[[], PodStatus]) -> bool:
        state = self._state
        if state.gone.is_set() or is_terminal(state.pod):
            return True
        pods = self._context.client.resource(PODS, state.pod.metadata.namespace)
        for _ in range(_CONFLICTS):
            status = make()
            if status == state.pod.status:
                return True
            try:
                state.pod = await pods.update_status(replace(state.pod, status=status))
            except StatusError as error:
                if error.is_not_found:
                    return True
                if not error.is_conflict or not await self._refresh():
                    _LOG.warning("status of pod %s cannot be written: %s", identity_of(state.pod), error)
                    return False
            except ConnectionError:
                return False
            else:
                return True
        return False

    async def _refresh(self) -> bool:
        state = self._state
        metadata = state.pod.metadata
        try:
            pod = await self._context.client.resource(PODS, metadata.namespace).get(metadata.name)
        except StatusError as error:
            if error.is_not_found:
                state.gone.set()
            return error.is_not_found
        except ConnectionError:
            return False
        self._on_pod(pod)
        return True

    def _status(self, *, final: bool) -> PodStatus:
        context, state = self._context, self._state
        view = PodView(
            now=context.clock.now(),
            runtime=context.runtime.name,
            host_ip=context.config.address,
            pod_ip=context.config.address,
            started_at=state.started_at,
            sandbox=state.sandbox,
            final=final,
            stopping=state.stopping,
            failure=state.failure,
            resources=self._last_health() if final else self._health(),
        )
        return pod_status(state.pod, state.containers, view)

    def _health(self) -> dict[str, tuple[ResourceStatus, ...]]:
        context, state = self._context, self._state
        return {
            record.name: context.device_health(state.pod, record.container)
            for record in state.containers
            if not record.init or (record.sidecar and context.config.report_sidecar_health)
        }

    def _last_health(self) -> dict[str, tuple[ResourceStatus, ...]]:
        """What was last told: after its end a pod's devices are not its business any more."""
        status = self._state.pod.status
        every = (*status.init_container_statuses, *status.container_statuses)
        return {one.name: one.allocated_resources_status for one in every}


def newer(pod: Pod, known: Pod) -> bool:
    """Whether ``pod`` is a later version than ``known``: no old news, and no echo of what was written here."""
    return _version(pod) > _version(known)


def _version(pod: Pod) -> int:
    version = pod.metadata.resource_version
    return int(version) if version.isdigit() else 0
