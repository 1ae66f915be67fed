"""Questions for replay: one pod, one node, and the objects that decide whether the pod fits there.

An advisor logs one where its model and the scheduler disagree (docs/advisor.md). It is small whatever the size of the
cluster, so that it can be attached to a bug report; ``kubectl dra simulate --replay`` schedules the pod again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.core_v1 import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.core.storage_v1 import CSINode, StorageClass
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim
from cathedra.api.scheme import kind_of
from cathedra.api.struct import replace, to_dict
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.rendering import API_VERSION
from cathedra.semantics.podclaims import claim_names, pod_group_name

KIND: Final = "PodQuestion"
_UNREAD: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("command", "args", "env", "env_from", "volume_mounts"), ()),
    **dict.fromkeys(("lifecycle", "liveness_probe", "readiness_probe", "startup_probe")),
}
"""Fields of containers that the scheduler does not read."""
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class PodQuestion(msgspec.Struct, frozen=True):
    """A pod that should fit on a node."""

    pod: str
    """The pod as «namespace/name»."""
    node: str
    state: ClusterState
    """The state in which it should, without what concerns other nodes."""

    def to_line(self) -> str:
        """Return the question as JSON in one line."""
        gates = self.state.gates
        objects = [_plain(one) for items in self.state.objects.values() for one in items.values()]
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "pod": self.pod,
            "node": self.node,
            "release": gates.release,
            "featureGates": dict(gates.overrides()),
            "items": objects,
        }
        return json.dumps(document, separators=(",", ":"))


def question_of(pod: Pod, node: str, state: ClusterState) -> PodQuestion:
    """Return the question whether ``pod`` fits on ``node``, with the objects that decide it."""
    namespace = pod.metadata.namespace
    found: list[KubeObject | None] = [pod, state.get(Node, node), state.get(Namespace, namespace)]
    target = state.get(Node, node)
    inventory = state.cluster.inventory.snapshot()
    pools = {record.pool for record in inventory.bound.get(node, ())}
    pools |= {record.pool for record in inventory.unbound if target is not None and record.target.matches(target)}
    found += [record.source for pool in sorted(pools) for record in inventory.pools.get(pool, ())]
    found += state.all(DeviceClass)
    found += state.all(DeviceTaintRule)
    names = {(namespace, name) for name in claim_names(pod)}
    for key, claim in state.objects.get(ResourceClaim, {}).items():
        assert isinstance(claim, ResourceClaim), "the kind of the mapping"
        allocation = claim.status.allocation
        results = allocation.devices.results if allocation is not None else ()
        if key in names or any((one.driver, one.pool) in pools for one in results):
            found.append(claim)
    found += [one for one in state.pods if one.spec.node_name == node]
    found.append(state.get(PodGroup, pod_group_name(pod), namespace))
    if any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes):
        found += [one for one in state.all(PersistentVolumeClaim) if one.metadata.namespace == namespace]
        found += [*state.all(PersistentVolume), *state.all(StorageClass), *state.all(CSINode)]
    objects = [_trimmed(one) for one in found if one is not None]
    small = ClusterState.of(objects, "the question", gates=state.gates, served=state.served)
    return PodQuestion(f"{namespace}/{pod.metadata.name}", node, small)


def read_question(path: Path) -> PodQuestion:
    """Return the first question in a file: a question alone, or a log with one.

    Raises:
        InvalidInput: the file cannot be read, or has none.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--replay {path}: {error}") from error
    for line in text.splitlines():
        for document in _documents(line):
            return _read(document, path)
    raise InvalidInput(f"--replay {path}: no line has a {KIND}, as cathedra advisor logs it")


def _documents(line: str) -> Iterator[Mapping[str, Any]]:
    """Yield the question of a line, which may be a value of a line in JSON itself."""
    start = line.find("{")
    if start < 0 or KIND not in line:
        return
    try:
        value, _ = json.JSONDecoder().raw_decode(line, start)
    except ValueError:
        return
    if value.get("kind") == KIND:
        yield value
        return
    for one in value.values():
        if isinstance(one, str):
            yield from _documents(one)


def _read(document: Mapping[str, Any], path: Path) -> PodQuestion:
    try:
        objects, gates = list(document["items"]), dict(document["featureGates"])
        pod, node, release = str(document["pod"]), str(document["node"]), str(document["release"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"--replay {path}: the {KIND} is not complete: {error}") from error
    return PodQuestion(pod, node, read_dump(objects, release=release, feature_gates=gates))


def _plain(one: KubeObject) -> dict[str, Any]:
    gvk = kind_of(type(one))
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, **to_dict(one)}


def _trimmed(one: KubeObject) -> KubeObject:
    """Leave out what only clients and containers read: a log is no place for the values of environment variables."""
    annotations = {name: value for name, value in (one.metadata.annotations or {}).items() if name != _APPLIED}
    one = replace(one, metadata=replace(one.metadata, managed_fields=(), annotations=annotations))
    if isinstance(one, Node):
        return replace(one, status=replace(one.status, images=()))
    if not isinstance(one, Pod):
        return one
    containers = tuple(replace(each, **_UNREAD) for each in one.spec.containers)
    init = tuple(replace(each, **_UNREAD) for each in one.spec.init_containers)
    return replace(one, spec=replace(one.spec, containers=containers, init_containers=init))
