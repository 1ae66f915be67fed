"""DefaultBinder: writes the binding."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Binding, ObjectReference
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import PODS
from cathedra.scheduler.framework.plugin import BindPlugin, CycleState
from cathedra.scheduler.framework.status import Status, error
from cathedra.scheduler.state.pod_info import PodInfo

__all__ = ["DefaultBinder"]


class DefaultBinder(BindPlugin):
    """Posts a Binding to the pod's sub-resource; the API server sets node and condition."""

    name = "DefaultBinder"

    def __init__(self, client: Client) -> None:
        self._client = client

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Binds, or answers with the server's refusal."""
        metadata = ObjectMeta(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        binding = Binding(metadata=metadata, target=ObjectReference(kind="Node", name=node))
        try:
            await self._client.resource(PODS, pod.namespace).create_subresource(pod.name, "binding", binding)
        except (StatusError, ConnectionError) as failure:
            return error(str(failure))
        return None
