"""The nodes and objects of a state, as a simulated cluster needs them to start like the original."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core import apps_v1, batch_v1, core_v1, policy_v1, scheduling_v1
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.client.transport import ResourceRef
from cathedra.cluster.config import NodeGroupSpec
from cathedra.insight.profileimport import imported_profile
from cathedra.insight.reading.state import ClusterState, key_of, read_kind
from cathedra.semantics.owners import controller_of
from cathedra.semantics.pods import is_terminal

_KINDS: Final[tuple[type[KubeObject], ...]] = (
    *(core_v1.Namespace, scheduling_v1.PriorityClass, core_v1.ResourceQuota),
    *(DeviceClass, DeviceTaintRule, ResourceClaimTemplate, ResourceClaim, policy_v1.PodDisruptionBudget),
    *(apps_v1.Deployment, apps_v1.ReplicaSet, apps_v1.StatefulSet, apps_v1.DaemonSet),
    *(core_v1.ReplicationController, batch_v1.CronJob, batch_v1.Job, core_v1.Pod),
)
"""Kinds that are created, in this order: an object is created after those that it names."""


_OWN: Final = frozenset(("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"))
"""Labels that every node gives itself."""
_CAPACITY: Final = ("cpu", "memory", "pods")


def imported_groups(state: ClusterState) -> tuple[NodeGroupSpec, ...]:
    """Return each node of a state as a group of its own name, with the devices that its slices have.

    Raises:
        InvalidInput: the slices of a node cannot be made a profile.
    """
    having = {piece.spec.node_name for piece in state.all(ResourceSlice)}
    groups = []
    for number, node in enumerate(state.nodes):
        name = node.metadata.name
        profile = imported_profile(state, name, f"dump-{number}")[0] if name in having else None
        groups.append(
            NodeGroupSpec(
                name,
                1,
                profile,
                names=(name,),
                labels={key: value for key, value in node.metadata.labels.items() if key not in _OWN},
                # Those of the node controller describe the node at the moment of the dump.
                taints=tuple(taint for taint in node.spec.taints if not taint.key.startswith("node.kubernetes.io/")),
                capacity={key: str(node.status.capacity[key]) for key in _CAPACITY if key in node.status.capacity},
            )
        )
    return tuple(groups)


def imported_objects(state: ClusterState) -> tuple[tuple[ResourceRef[Any], KubeObject], ...]:
    """Return what users have created, as they would create it again; controllers create the rest, and status, anew."""
    found = [one for kind in _KINDS for one in _created(state, kind)]
    # A dump of some kinds has no namespaces, and the server creates nothing in one that does not exist.
    known = {one.metadata.name for one in state.all(core_v1.Namespace)}
    named = dict.fromkeys(namespace for one in found if (namespace := key_of(one)[0]) and namespace not in known)
    missing = [core_v1.Namespace(metadata=ObjectMeta(name=name)) for name in named]
    return tuple((read_kind(type(one)).ref, one) for one in (*missing, *found))


def _created(state: ClusterState, kind: type[KubeObject]) -> Iterator[KubeObject]:
    for one in state.all(kind):
        known: Any = one
        if controller_of(known) is not None or (isinstance(known, core_v1.Pod) and is_terminal(known)):
            continue
        metadata = known.metadata
        kept = ObjectMeta(
            name=metadata.name, namespace=metadata.namespace, labels=metadata.labels, annotations=metadata.annotations
        )
        plain = {name: value for name, value in to_dict(known).items() if name not in ("metadata", "status")}
        if kind is core_v1.Pod:
            plain["spec"].pop("nodeName", None)
        if kind is batch_v1.Job and not plain["spec"].get("manualSelector"):
            # The server generates both for the new job, and refuses those of another one.
            plain["spec"].pop("selector", None)
            plain["spec"]["template"].get("metadata", {}).pop("labels", None)
        yield replace(from_dict(kind, plain), metadata=kept)
