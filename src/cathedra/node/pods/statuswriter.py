"""Writing a pod's status to the API server, whenever it has changed.

Only this node writes it, but others change the object's metadata and conditions meanwhile; then the write is repeated
on top of what they have written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from cathedra.api.core.core_v1 import Pod, PodStatus, ResourceRequirements, ResourceStatus
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.api.undecodable import UndecodableObject
from cathedra.client.client import ResourceClient
from cathedra.client.resources import PODS
from cathedra.node.containers.table import ContainerTable
from cathedra.node.pods.admission import Rejection
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.lifecycle import PodLifecycle
from cathedra.node.pods.podobject import PodObject
from cathedra.node.pods.resizer import PodResizer
from cathedra.node.pods.status import PodView, pod_status, rejected_status
from cathedra.node.resources.pods import as_quantities, pod_requirements, taken_by_claims
from cathedra.node.setup.launch import identity_of
from cathedra.releases import behaviours
from cathedra.semantics.pods import is_terminal

__all__ = ["StatusWriter"]

_CONFLICTS: Final = 5
_LOG = logging.getLogger(__name__)


class StatusWriter:
    """Writes the status of one pod, and in the end that its deletion may be completed."""

    def __init__(
        self,
        pod: PodObject,
        life: PodLifecycle,
        containers: ContainerTable,
        context: PodContext,
        resizer: PodResizer,
    ) -> None:
        self._object = pod
        self._life = life
        self._containers = containers
        self._context = context
        self._resizer = resizer

    async def publish(self, *, final: bool = False) -> bool:
        """Write the status if it has changed; whether the API server now has it.

        ``final``: the pod is over and has let go of everything, so its phase becomes terminal.
        """
        return await self._write(lambda: self._status(final=final))

    async def publish_rejection(self, rejection: Rejection) -> bool:
        """Write that the node does not take the pod; whether the API server now has it."""
        return await self._write(lambda: rejected_status(self._object.pod, self._context.clock.now(), rejection))

    async def confirm_deletion(self) -> bool:
        """Have the object of a pod that is over removed; whether there is none of this pod any more."""
        metadata = self._object.pod.metadata
        try:
            await self._pods.delete(metadata.name, grace_period_seconds=0, uid=metadata.uid)
        except UndecodableObject:
            _LOG.debug("pod %s: its deletion was answered with what cannot be decoded", identity_of(self._object.pod))
        except StatusError as error:
            if error.is_not_found or error.is_conflict:
                return True
            _LOG.warning("pod %s cannot be deleted: %s", identity_of(self._object.pod), error)
        except ConnectionError:
            _LOG.info("pod %s cannot be deleted now: no connection", identity_of(self._object.pod))
        return False

    @property
    def _pods(self) -> ResourceClient[Pod]:
        return self._context.client.resource(PODS, self._object.pod.metadata.namespace)

    async def _write(self, make: Callable[[], PodStatus]) -> bool:
        if self._object.gone or is_terminal(self._object.pod):
            return True
        for _ in range(_CONFLICTS):
            status, pod = make(), self._object.pod
            if status == pod.status:
                return True
            try:
                self._object.note_written(await self._pods.update_status(replace(pod, status=status)))
            except UndecodableObject as error:
                # It was written, on top of a pod that can still not be decoded.
                self._object.note_written(replace(pod, status=status))
                self._object.offer_undecodable(error.what)
                return True
            except StatusError as error:
                if error.is_not_found:
                    return True
                if not error.is_conflict or not await self._refresh():
                    _LOG.warning("status of pod %s cannot be written: %s", identity_of(pod), error)
                    return False
            except ConnectionError:
                return False
            else:
                return True
        return False

    async def _refresh(self) -> bool:
        """Read what was written elsewhere; whether that is known now."""
        try:
            self._object.offer(await self._pods.get(self._object.pod.metadata.name))
        except UndecodableObject as error:
            self._object.offer_undecodable(error.what)
        except StatusError as error:
            if error.is_not_found:
                self._object.note_gone()
            return error.is_not_found
        except ConnectionError:
            return False
        return True

    def _status(self, *, final: bool) -> PodStatus:
        context, life = self._context, self._life
        view = PodView(
            now=context.clock.now(),
            runtime=context.runtime.name,
            host_ip=context.config.address,
            pod_ip=life.address or context.config.address,
            started_at=life.started_at,
            sandbox=life.set_up,
            final=final,
            stopping=life.stopping,
            failure=life.failure,
            resources=self._last_health() if final else self._health(),
            granted={record.name: self._resizer.grants.resources(record.container) for record in self._containers.all},
            applied=self._resizer.applied,
            whole=self._whole(),
            resize=self._resizer.conditions,
        )
        return pod_status(self._object.pod, self._containers.all, view)

    def _whole(self) -> ResourceRequirements | None:
        """Of pods that state resources of their own (1.36), or whose claims take from the node (1.37)."""
        pod, gates = self._object.pod, self._context.gates
        stated = pod.spec.resources is not None and gates.has(behaviours.POD_LEVEL_RESIZE)
        if not self._life.set_up or not (
            stated or (taken_by_claims(pod, gates) and gates.has(behaviours.CLAIMS_TAKE_FOR_PODS))
        ):
            return None
        requests, limits = pod_requirements(self._resizer.grants.of(pod), gates)
        return ResourceRequirements(requests=as_quantities(requests), limits=as_quantities(limits))

    def _health(self) -> dict[str, tuple[ResourceStatus, ...]]:
        context, pod = self._context, self._object.pod
        return {
            record.name: context.device_health(pod, record.container)
            for record in self._containers.all
            if not record.init or (record.sidecar and context.config.report_sidecar_health)
        }

    def _last_health(self) -> dict[str, tuple[ResourceStatus, ...]]:
        """What was last told: after its end a pod's devices are not its business any more."""
        status = self._object.pod.status
        every = (*status.init_container_statuses, *status.container_statuses)
        return {one.name: one.allocated_resources_status for one in every}
