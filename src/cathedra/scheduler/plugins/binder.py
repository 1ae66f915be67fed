"""DefaultBinder: writes the binding, and reads its outcome from the pod if the response leaves that open."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Binding, ObjectReference, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.client.backoff import ExponentialBackoff
from cathedra.client.client import Client, ResourceClient
from cathedra.client.resources import PODS
from cathedra.clock import Clock
from cathedra.scheduler.framework.plugin import BindPlugin, CycleState
from cathedra.scheduler.framework.status import Status, error
from cathedra.scheduler.state.pod_info import PodInfo

QUESTIONS = 8
"""Number of reads of a pod after a binding whose response was lost, over about twenty seconds."""


class DefaultBinder(BindPlugin):
    """Posts a Binding to the pod's sub-resource; the API server sets node and condition."""

    name = "DefaultBinder"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Binds, or answers with the server's refusal."""
        metadata = ObjectMeta(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        binding = Binding(metadata=metadata, target=ObjectReference(kind="Node", name=node))
        pods = self._client.resource(PODS, pod.namespace)
        try:
            await pods.create_subresource(pod.name, "binding", binding)
        except StatusError as refusal:
            # A store that timed out may have kept the write, and a request that a proxy repeats conflicts with itself.
            unknown = refusal.code == 409 or refusal.code >= 500
            return None if unknown and await self._is_bound(pods, pod, node) else error(str(refusal))
        except ConnectionError as lost:
            return None if await self._is_bound(pods, pod, node) else error(str(lost))
        return None

    async def _is_bound(self, pods: ResourceClient[Pod], pod: PodInfo, node: str) -> bool:
        """Return True if a binding whose outcome is unknown was carried out; False if the server cannot be read either.

        A bound pod runs. Releasing its devices because of a lost response would take them from a running pod.
        """
        backoff = ExponentialBackoff(self._clock, base=0.1, factor=2.0, maximum=5.0, reset_after=60.0)
        for _ in range(QUESTIONS):
            try:
                found = await pods.get(pod.name)
            except (StatusError, ConnectionError) as refusal:
                if isinstance(refusal, StatusError) and refusal.code < 500 and refusal.code != 429:
                    return False
                await self._clock.sleep(backoff.delay())
            else:
                return found.metadata.uid == pod.uid and found.spec.node_name == node
        return False
