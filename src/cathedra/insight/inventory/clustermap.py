"""Model of the device map: devices with their nodes, and the claims, pods and workloads that use them.

A map has everything that a page needs to draw and to search without further questions. Its devices are those of
`devices`; nodes add the labels by which the page groups, and subjects are what `explain` can explain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim
from cathedra.insight.explanation.claims import claim_state
from cathedra.insight.explanation.question import WORKLOADS
from cathedra.insight.inventory.listing import device_rows, pool_problems
from cathedra.insight.inventory.report import DeviceEntry
from cathedra.insight.reading.state import ClusterState, Note
from cathedra.insight.rendering import API_VERSION
from cathedra.profiles import profile_names
from cathedra.semantics.nodes import ready_status
from cathedra.semantics.owners import controller_of
from cathedra.semantics.podclaims import claim_names, pod_group_name
from cathedra.semantics.pods import is_terminal

D = TypeVar("D")
S = TypeVar("S")

MOST_SUBJECTS: Final = 50_000
"""Claims, pods and workloads of a map; those beyond are counted in a note."""


class MapNode(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A node, as far as its devices can be grouped and used by it."""

    name: str
    labels: Mapping[str, str] = {}
    taints: tuple[str, ...] = ()
    ready: bool = True
    unschedulable: bool = False


class MapSubject(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A claim, pod, workload or pod group that uses devices."""

    kind: str
    """The kind in lower case, as in «KIND/NAME»; a ResourceClaim is a «claim»."""
    namespace: str
    name: str
    state: str = ""
    """«pending», «allocated,reserved», «Running» and so on."""
    waits: bool = False
    claims: tuple[str, ...] = ()
    """Names of the claims of a pod."""
    owner: str = ""
    """«kind/name» of the controller, or of the pod group."""
    replicas: int | None = None
    """Of workloads that can be scaled."""
    since: str = ""
    """Time of creation, if known."""


class DeviceMap(msgspec.Struct, Generic[D, S], frozen=True, rename="camel"):
    """Everything that the device map shows, with devices and subjects of a form."""

    source: str
    devices: tuple[D, ...]
    nodes: tuple[MapNode, ...] = ()
    subjects: tuple[S, ...] = ()
    classes: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    """Profiles of nodes that a simulation can add."""
    taint_rules: tuple[str, ...] = ()
    """Names of the DeviceTaintRules."""
    pools: tuple[str, ...] = ()
    """Problems of pools, a sentence each."""
    now: float | None = None
    """Time of reading, in seconds since the Unix epoch; None for dumps."""
    notes: tuple[Note, ...] = ()


class ClusterMap(DeviceMap[DeviceEntry, MapSubject], frozen=True, rename="camel"):
    """Everything that the device map shows."""

    def to_dict(self) -> JSONObject:
        """Return the map as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "ClusterMap", **found}


def cluster_map(state: ClusterState) -> ClusterMap:
    """Return the map of a state."""
    owners: set[tuple[str, str]] = set()
    subjects = list(map(claim_subject, state.all(ResourceClaim)))
    for pod in state.pods:
        subject = pod_subject(pod)
        if subject is None:
            continue
        subjects.append(subject)
        owner = controller_of(pod)
        if owner is not None:
            owners.add((pod.metadata.namespace, owner.uid))
    subjects += [*workload_subjects(state, owners), *group_subjects(state)]
    nodes = tuple(map(map_node, state.nodes))
    return assembled(state, devices=device_rows(state), nodes=nodes, subjects=subjects, pools=pool_problems(state))


def assembled(
    state: ClusterState,
    *,
    devices: tuple[DeviceEntry, ...],
    nodes: tuple[MapNode, ...],
    subjects: list[MapSubject],
    pools: tuple[str, ...],
) -> ClusterMap:
    """Return the map of these parts, with the names of classes, profiles and rules."""
    notes = state.notes
    if len(subjects) > MOST_SUBJECTS:
        # Those that wait come first, since readers search for them.
        subjects.sort(key=lambda one: not one.waits)
        more = len(subjects) - MOST_SUBJECTS
        notes = (*notes, Note("subjects", "partial", f"{more:,} claims, pods and workloads beyond {MOST_SUBJECTS:,}"))
    return ClusterMap(
        source=state.source,
        devices=devices,
        nodes=nodes,
        subjects=tuple(subjects[:MOST_SUBJECTS]),
        classes=tuple(sorted(one.metadata.name for one in state.all(DeviceClass))),
        profiles=profile_names(),
        taint_rules=tuple(sorted(one.metadata.name for one in state.all(DeviceTaintRule))),
        pools=pools,
        now=state.now,
        notes=notes,
    )


def map_node(node: Node) -> MapNode:
    """Return the entry of a node."""
    return MapNode(
        name=node.metadata.name,
        labels=dict(node.metadata.labels or {}),
        taints=tuple(
            f"{one.key}={one.value}:{one.effect}" if one.value else f"{one.key}:{one.effect}"
            for one in node.spec.taints
        ),
        # A dump may have nodes without conditions; they are not reported as broken.
        ready=not node.status.conditions or ready_status(node) == "True",
        unschedulable=bool(node.spec.unschedulable),
    )


def claim_subject(claim: ResourceClaim) -> MapSubject:
    """Return the entry of a claim."""
    owner = controller_of(claim)
    return MapSubject(
        "claim",
        claim.metadata.namespace,
        claim.metadata.name,
        claim_state(claim),
        waits=claim.status.allocation is None,
        owner=f"{owner.kind.lower()}/{owner.name}" if owner is not None else "",
        since=str(claim.metadata.creation_timestamp or ""),
    )


def pod_subject(pod: Pod) -> MapSubject | None:
    """Return the entry of a pod; None if it has ended or uses no devices."""
    names, group = tuple(claim_names(pod)), pod_group_name(pod)
    if is_terminal(pod) or not (names or pod.spec.resource_claims or group):
        return None
    owner = controller_of(pod)
    return MapSubject(
        "pod",
        pod.metadata.namespace,
        pod.metadata.name,
        pod.status.phase or "Pending",
        waits=not pod.spec.node_name,
        claims=names,
        owner=f"podgroup/{group}" if group else f"{owner.kind.lower()}/{owner.name}" if owner is not None else "",
        since=str(pod.metadata.creation_timestamp or ""),
    )


def workload_subjects(state: ClusterState, owners: Collection[tuple[str, str]]) -> Iterator[MapSubject]:
    """Yield the workloads whose pods use claims: by their template, or because ``owners`` (namespace, UID) has them."""
    for kind in WORKLOADS:
        for one in state.all(kind):
            if controller_of(one) is not None:
                continue
            if not _template_claims(one) and (one.metadata.namespace, one.metadata.uid) not in owners:
                continue
            spec: Any = getattr(one, "spec", None)
            yield MapSubject(
                kind.__name__.lower(),
                one.metadata.namespace,
                one.metadata.name,
                replicas=getattr(spec, "replicas", None),
                since=str(one.metadata.creation_timestamp or ""),
            )


def group_subjects(state: ClusterState) -> Iterator[MapSubject]:
    """Yield the pod groups."""
    for one in state.all(PodGroup):
        yield MapSubject("podgroup", one.metadata.namespace, one.metadata.name)


def _template_claims(one: Any) -> Iterable[object]:
    """Return the claims of a workload's pod template; a CronJob has it within a template of its jobs."""
    spec = getattr(one, "spec", None)
    job = getattr(spec, "job_template", None)
    template = getattr(getattr(job, "spec", spec), "template", None)
    return getattr(getattr(template, "spec", None), "resource_claims", None) or ()
