"""``kubectl drain`` on a copy of a cluster: cordon the node, and evict its pods as their disruption budgets allow.

As with ``--ignore-daemonsets`` and ``--delete-emptydir-data``, pods of daemon sets stay, and local storage is no
obstacle. Without ``--force`` kubectl evicts no pod of a node that has one without a controller, because nothing would
create that pod again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.core.policy_v1 import Eviction, PodDisruptionBudget
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import NODES, PODS
from cathedra.client.transport import PatchType
from cathedra.clock import Clock
from cathedra.insight.reading.state import ClusterState, Note
from cathedra.semantics.owners import controller_of
from cathedra.semantics.pods import is_mirror, is_terminal

__all__ = ["PlannedDrain", "drain", "planned_drain"]

_RETRY: Final = 5.0
"""Seconds until a refused eviction is tried again, as in kubectl."""
_PATIENCE: Final = 60.0
"""Seconds without an eviction after which a budget is taken to forbid the rest; kubectl would try for ever."""


@dataclass(frozen=True, slots=True)
class PlannedDrain:
    """A node to drain, and what its pods without a controller mean for that."""

    node: str
    refusal: str = ""
    """The reason for which kubectl evicts no pod; "" if it does."""
    staying: frozenset[str] = frozenset()
    """UIDs of the pods that stay: those of daemon sets, and static ones."""
    notes: tuple[Note, ...] = ()


def planned_drain(node: str, state: ClusterState, deleted: Iterable[KubeObject], *, force: bool) -> PlannedDrain:
    """Look up the pods of a node that stay, and those that have no controller; ``deleted`` ones do not count.

    The state is the one that was read: in a copy, references to owners that were not read are removed.
    """
    gone = {one.metadata.uid for one in deleted}
    pods = [pod for pod in state.pods if pod.spec.node_name == node and pod.metadata.uid not in gone]
    staying = frozenset(pod.metadata.uid for pod in pods if is_mirror(pod) or _is_daemon(pod))
    bare = [
        f"{pod.metadata.namespace}/{pod.metadata.name}"
        for pod in pods
        if controller_of(pod) is None and not is_terminal(pod) and not is_mirror(pod)
    ]
    notes = []
    if not state.is_known(PodDisruptionBudget):
        text = (
            f"there are no poddisruptionbudgets in {state.source}: the drain of {node} is taken to be held up by none"
        )
        notes.append(Note("poddisruptionbudgets", "absent", text))
    if not bare:
        return PlannedDrain(node, staying=staying, notes=tuple(notes))
    names = ", ".join(bare)
    if force:
        warning = f"drain of {node}: deleting Pods that declare no controller: {names}"
        return PlannedDrain(node, staying=staying, notes=(*notes, Note("pods", "deleted", warning)))
    refusal = (
        f'unable to drain node "{node}" due to error: cannot delete Pods that declare no controller '
        f"(use --force to override): {names}"
    )
    return PlannedDrain(node, refusal)


async def drain(client: Client, planned: PlannedDrain, *, clock: Clock) -> tuple[str, ...]:
    """Drain the node. Return the reasons for which pods stay on it."""
    await client.resource(NODES).patch(planned.node, PatchType.MERGE, {"spec": {"unschedulable": True}})
    # As in kubectl, which cordons the node before it lists its pods.
    if planned.refusal:
        return (planned.refusal,)
    pods = await client.resource(PODS).list()
    left = [pod for pod in pods.items if pod.spec.node_name == planned.node and pod.metadata.uid not in planned.staying]
    evicted = clock.monotonic()
    while True:
        refused = [(pod, why) for pod in left if (why := await _evict(client, pod))]
        if len(refused) < len(left):
            evicted = clock.monotonic()
        if not refused:
            return ()
        if clock.monotonic() - evicted > _PATIENCE:
            return tuple(
                f'error when evicting pods/"{pod.metadata.name}" -n "{pod.metadata.namespace}": {why}'
                for pod, why in refused
            )
        left = [pod for pod, _ in refused]
        await clock.sleep(_RETRY)


async def _evict(client: Client, pod: Pod) -> str:
    """Evict a pod. Return the reason why the server refuses; "" if the pod goes, or is gone."""
    metadata = pod.metadata
    eviction = Eviction(metadata=ObjectMeta(name=metadata.name, namespace=metadata.namespace))
    try:
        await client.resource(PODS, metadata.namespace).create_subresource(metadata.name, "eviction", eviction)
    except StatusError as error:
        return "" if error.is_not_found else str(error)
    return ""


def _is_daemon(pod: Pod) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.kind == "DaemonSet"
