"""References of pods and groups: groups that do not exist, and gangs with fewer pods than they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from cathedra.api.core.apps_v1 import Deployment, ReplicaSet, StatefulSet
from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Pod, ReplicationController
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.struct import to_dict
from cathedra.insight.linting.findings import Findings, ManifestObject
from cathedra.insight.manifests import pod_spec_of
from cathedra.insight.reading.state import ClusterState
from cathedra.semantics.podclaims import pod_group_name
from cathedra.semantics.pods import is_terminal

K = TypeVar("K", bound=KubeObject)

_Key = tuple[str, str]
"""Namespace and name of an object."""


def check_groups(objects: Iterable[ManifestObject], state: ClusterState | None, findings: Findings) -> None:
    """Enter references to groups that are neither in the files nor in the cluster, and gangs that are too small.

    Missing groups are only reported with a cluster whose groups are known: elsewhere they may be made by a controller.
    """
    objects = tuple(objects)
    groups = {(one.namespace, one.manifest.name): one for one in objects if one.manifest.gvk.kind == "PodGroup"}
    if state is not None and state.is_known(PodGroup):
        known = groups.keys() | _names(state, PodGroup)
        for one in objects:
            spec = pod_spec_of(one.object)
            group = spec.scheduling_group if spec is not None else None
            name = group.pod_group_name if group is not None else None
            if name and (one.namespace, name) not in known:
                path = f"{one.pod_spec_path}.schedulingGroup.podGroupName"
                findings.add("unknown-group", one.manifest, path, _missing("PodGroup", name, one.namespace))
    if state is not None and state.is_known(CompositePodGroup):
        _check_parents(objects, state, findings)
    for key, group_object in groups.items():
        _check_size(key, group_object, objects, state, findings)


def _check_parents(objects: tuple[ManifestObject, ...], state: ClusterState, findings: Findings) -> None:
    known = _names(state, CompositePodGroup)
    known |= {(one.namespace, one.manifest.name) for one in objects if one.manifest.gvk.kind == "CompositePodGroup"}
    for one in objects:
        if one.manifest.gvk.kind in ("PodGroup", "CompositePodGroup"):
            # The type depends on the version that the release stores; the field is the same in all.
            parent = to_dict(one.object)["spec"].get("parentCompositePodGroupName")
            if parent and (one.namespace, parent) not in known:
                why = _missing("CompositePodGroup", parent, one.namespace)
                findings.add("unknown-group", one.manifest, "spec.parentCompositePodGroupName", why)


def _missing(kind: str, name: str, namespace: str) -> str:
    return f"there is no {kind} {name} in namespace {namespace}, neither in the cluster nor in the files: the pods wait"


def _names(state: ClusterState, kind: type[K]) -> set[_Key]:
    return {(one.metadata.namespace, one.metadata.name) for one in state.all(kind)}


def _check_size(
    key: _Key,
    group: ManifestObject,
    objects: Iterable[ManifestObject],
    state: ClusterState | None,
    findings: Findings,
) -> None:
    gang = to_dict(group.object)["spec"].get("schedulingPolicy", {}).get("gang") or {}
    least, pods = gang.get("minCount") or 0, 0
    for count in _counts(key, objects, state):
        if count is None:
            return
        pods += count
    # Without any pod, they are made by something that was not given.
    if 0 < pods < least:
        why = f"the gang needs {least} pods, and {pods} {'name' if pods > 1 else 'names'} the group: none is scheduled"
        findings.add("small-group", group.manifest, "spec.schedulingPolicy.gang.minCount", why)


def _counts(key: _Key, objects: Iterable[ManifestObject], state: ClusterState | None) -> Iterator[int | None]:
    """Yield how many pods of a group each object makes; None: the number is not known."""
    written: set[_Key] = set()
    for one in objects:
        spec = pod_spec_of(one.object)
        group = spec.scheduling_group if spec is not None else None
        if group is not None and (one.namespace, group.pod_group_name) == key:
            written.add((one.namespace, one.manifest.name))
            yield None if one.pod_path else _pods_of(one.object)
    for pod in state.all(Pod) if state is not None else ():
        own = (pod.metadata.namespace, pod.metadata.name)
        owners = {(pod.metadata.namespace, owner.name) for owner in pod.metadata.owner_references}
        if own[0] == key[0] and pod_group_name(pod) == key[1] and not ({own} | owners) & written:
            yield 0 if is_terminal(pod) else 1


def _pods_of(obj: KubeObject) -> int | None:
    if isinstance(obj, Pod):
        return 1
    if isinstance(obj, Job):
        parallelism = 1 if obj.spec.parallelism is None else obj.spec.parallelism
        return parallelism if obj.spec.completions is None else min(parallelism, obj.spec.completions)
    if isinstance(obj, Deployment | ReplicaSet | StatefulSet | ReplicationController):
        return 1 if obj.spec.replicas is None else obj.spec.replicas
    return None
