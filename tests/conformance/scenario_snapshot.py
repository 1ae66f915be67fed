"""What is compared of a cluster: a section per kind, and names, uids and times that mean the same in every run.

The rules are those of the vectors' README, sections «Snapshots» and «Normalised in every string».
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["RESOURCES", "Identities", "Resource", "section_of", "sorted_section"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of a scenario: where it is served, and the section of a snapshot that shows it ("" for none)."""

    kind: str
    version: str
    plural: str
    section: str
    namespaced: bool = True

    @property
    def prefix(self) -> str:
        """The path of its version."""
        return f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", sub: str = "") -> str:
        """The path of all objects, of a namespace's, of one, or of a sub-resource."""
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return self.prefix + scope + "".join(f"/{part}" for part in (self.plural, name, sub) if part)


_DRA: Final = "resource.k8s.io/v1"
_GROUPS: Final = "scheduling.k8s.io/v1alpha2"
RESOURCES: Final = {
    resource.kind: resource
    for resource in (
        Resource("Namespace", "v1", "namespaces", "namespaces", namespaced=False),
        Resource("Node", "v1", "nodes", "nodes", namespaced=False),
        Resource("Pod", "v1", "pods", "pods"),
        Resource("Event", "v1", "events", "events"),
        Resource("ConfigMap", "v1", "configmaps", "configmaps"),
        Resource("Secret", "v1", "secrets", "secrets"),
        Resource("Service", "v1", "services", ""),
        Resource("ServiceAccount", "v1", "serviceaccounts", ""),
        Resource("PersistentVolumeClaim", "v1", "persistentvolumeclaims", ""),
        Resource("ResourceQuota", "v1", "resourcequotas", "quotas"),
        Resource("ReplicationController", "v1", "replicationcontrollers", "replicationcontrollers"),
        Resource("Deployment", "apps/v1", "deployments", "deployments"),
        Resource("ReplicaSet", "apps/v1", "replicasets", "replicasets"),
        Resource("StatefulSet", "apps/v1", "statefulsets", "statefulsets"),
        Resource("DaemonSet", "apps/v1", "daemonsets", "daemonsets"),
        Resource("ControllerRevision", "apps/v1", "controllerrevisions", "revisions"),
        Resource("Job", "batch/v1", "jobs", "jobs"),
        Resource("CronJob", "batch/v1", "cronjobs", "cronjobs"),
        Resource("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", "budgets"),
        Resource("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", "", namespaced=False),
        Resource("DeviceClass", _DRA, "deviceclasses", "", namespaced=False),
        Resource("ResourceSlice", _DRA, "resourceslices", "slices", namespaced=False),
        Resource("ResourceClaim", _DRA, "resourceclaims", "claims"),
        Resource("ResourceClaimTemplate", _DRA, "resourceclaimtemplates", "templates"),
        Resource("DeviceTaintRule", "resource.k8s.io/v1beta2", "devicetaintrules", "taintrules", namespaced=False),
        Resource(
            "ResourcePoolStatusRequest",
            "resource.k8s.io/v1alpha3",
            "resourcepoolstatusrequests",
            "poolrequests",
            namespaced=False,
        ),
        Resource("PodGroup", _GROUPS, "podgroups", "podgroups"),
        Resource("Workload", _GROUPS, "workloads", "workloads"),
    )
}

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_UID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_UNNAMED: Final = re.compile(r'"([^"\s]*-)[bcdfghjklmnpqrstvwxz2456789]{5}" is (forbidden|invalid)')
_COMBINED: Final = "(combined from similar events): "
_QUIET_REASONS: Final = frozenset({"RegisteredNode", "RemovingNode"})


class Identities:
    """Uids, generated names and hashes seen so far, and what they are called in an answer."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._seen: dict[str, tuple[str, str, str]] = {}
        """Uid → kind, namespace and name."""
        self._again: dict[str, int] = {}
        self._made: dict[tuple[str, str, str], int] = {}
        self._generated: dict[str, str] = {}
        self._hashes: dict[str, int] = {}
        self._shares: set[str] = set()
        self._shown: set[str] = set()

    def see(self, kind: str, obj: Json) -> None:
        """Store the identity of an object."""
        metadata = obj["metadata"]
        uid, name = metadata["uid"], metadata["name"]
        if uid not in self._seen:
            key = (kind, metadata.get("namespace", ""), name)
            self._seen[uid] = key
            self._made[key] = self._again[uid] = self._made.get(key, 0) + 1
        prefix = metadata.get("generateName", "")[:58]
        if prefix and name.startswith(prefix) and len(name) == len(prefix) + 5:
            self._generated[name] = f"{prefix}<suffix>"
        if kind == "ResourceClaim":
            allocation = (obj.get("status") or {}).get("allocation") or {}
            results = (allocation.get("devices") or {}).get("results") or ()
            self._shares.update(result["shareID"] for result in results if result.get("shareID"))

    def number_hashes(self, replica_sets: Iterable[Json], revisions: Iterable[Json]) -> None:
        """Number the hashes of templates that are new in a snapshot."""

        def revision_of(replica_set: Json) -> tuple[int, str]:
            annotations = replica_set["metadata"].get("annotations") or {}
            return int(annotations.get("deployment.kubernetes.io/revision", "0")), replica_set["metadata"]["name"]

        found = [
            (replica_set["metadata"].get("labels") or {}).get("pod-template-hash", "")
            for replica_set in sorted(replica_sets, key=revision_of)
        ]
        for revision in sorted(revisions, key=lambda one: (one.get("revision", 0), one["metadata"]["name"])):
            found.append(_revision_hash(revision))
        for text in found:
            if text and text not in self._hashes:
                self._hashes[text] = len(self._hashes) + 1

    def uid_of(self, kind: str, name: str) -> str:
        """The uid of the object of that kind and name that was made last."""
        return next(uid for uid, (k, _, n) in reversed(self._seen.items()) if (k, n) == (kind, name))

    def normalized(self, value: Any) -> Any:
        """``value`` with placeholders in every string and key."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.normalized(item) for item in value]
        if isinstance(value, dict):
            return {self._text(key): self.normalized(item) for key, item in value.items()}
        return value

    def is_news(self, event: Json) -> bool:
        """Return True if a normalised event is new, and note it."""
        key = json.dumps(event, sort_keys=True)
        if key in self._shown:
            return False
        self._shown.add(key)
        return True

    def _text(self, text: str) -> str:
        for share in self._shares:
            text = text.replace(share, "<shareID>")
        text = _UID.sub(lambda match: self._uid(match[0]), text)
        text = _TIME.sub("<time>", text)
        text = self._named(text)
        return text.replace(self.namespace, "$(ns)")

    def _uid(self, uid: str) -> str:
        known = self._seen.get(uid)
        if known is None:
            return "<uid>"
        kind, _, name = known
        again = self._again[uid]
        return f"<uid:{kind}/{name}{f'#{again}' if again > 1 else ''}>"

    def _named(self, text: str) -> str:
        for name in sorted(self._generated, key=len, reverse=True):
            text = text.replace(name, self._generated[name])
        text = _UNNAMED.sub(r'"\1<suffix>" is \2', text)
        for value, number in self._hashes.items():
            text = re.sub(rf"(?<![a-z0-9]){re.escape(value)}(?![a-z0-9])", f"<hash:{number}>", text)
        return text


def _revision_hash(revision: Json) -> str:
    metadata = revision["metadata"]
    stated: str = (metadata.get("labels") or {}).get("controller.kubernetes.io/hash", "")
    return stated or metadata["name"].rpartition("-")[2]


def section_of(resource: Resource, objects: Iterable[Json], identities: Identities) -> list[Json]:
    """The section of a snapshot that shows these objects."""
    shown = (_shown(resource, obj, identities) for obj in objects)
    return sorted_section(identities.normalized(_filled(item)) for item in shown if item is not None)


def sorted_section(items: Iterable[Json]) -> list[Json]:
    """The elements of a section in their order."""
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _filled(value: Any) -> Any:
    """``value`` without what is absent, empty or null."""
    if isinstance(value, dict):
        kept = {key: _filled(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item not in ("", [], {})}
    if isinstance(value, list):
        return [_filled(item) for item in value]
    return value


def _shown(resource: Resource, obj: Json, identities: Identities) -> Json | None:
    if resource.kind == "Event":
        return _event(obj, identities)
    metadata = obj["metadata"]
    if resource.kind == "ConfigMap" and metadata["name"].endswith("ca.crt"):
        return None
    if resource.kind == "Namespace" and "deletionTimestamp" not in metadata:
        return None
    namespace = metadata.get("namespace", "")
    item: Json = {
        "name": metadata["name"],
        "namespace": "" if namespace == identities.namespace else namespace,
        "owners": sorted(map(_owner, metadata.get("ownerReferences") or ())),
        "finalizers": sorted(metadata.get("finalizers") or ()),
        "deleting": True if "deletionTimestamp" in metadata else None,
    }
    describe = _SECTIONS.get(resource.section)
    return item | describe(obj) if describe is not None else item


def _owner(reference: Json) -> str:
    flags = " controller" * bool(reference.get("controller")) + " blocks" * bool(reference.get("blockOwnerDeletion"))
    return f"{reference['kind']}/{reference['name']} {reference['uid']}{flags}"


def _event(obj: Json, identities: Identities) -> Json | None:
    about = obj["involvedObject"]
    namespace = obj["metadata"]["namespace"]
    cluster_scoped = namespace == "default" and not about.get("namespace")
    if obj.get("reason") in _QUIET_REASONS or not (namespace == identities.namespace or cluster_scoped):
        return None
    return {
        "about": f"{about['kind']}/{about['name']}",
        "type": obj.get("type"),
        "reason": obj.get("reason"),
        "message": (obj.get("message") or "").removeprefix(_COMBINED),
        "by": obj.get("reportingComponent") or (obj.get("source") or {}).get("component"),
    }


def _conditions(obj: Json) -> list[Json]:
    found = (obj.get("status") or {}).get("conditions") or ()
    picked = [{key: one.get(key) for key in ("type", "status", "reason", "message")} for one in found]
    return sorted(picked, key=lambda one: str(one["type"]))


def _by_text(items: Iterable[Any] | None) -> list[Any]:
    return sorted(items or (), key=lambda item: json.dumps(item, sort_keys=True))


def _picked(source: Mapping[str, Any], *names: str) -> Json:
    return {name: source.get(name) for name in names}


def _numbers(status: Mapping[str, Any], *without: str) -> Json:
    return {
        name: value
        for name, value in status.items()
        if isinstance(value, int) and not isinstance(value, bool) and value and name not in without
    }


def _pod(obj: Json) -> Json:
    spec, status, metadata = obj["spec"], obj.get("status") or {}, obj["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    counts = ("job-index-failure-count", "job-index-ignored-failure-count")
    return {
        **_picked(spec, "nodeName", "schedulingGates", "priority"),
        "preemptionPolicy": "Never" if spec.get("preemptionPolicy") == "Never" else None,
        **_picked(status, "phase", "reason", "message", "nominatedNodeName", "extendedResourceClaimStatus"),
        "nodeAllocatableResourceClaimStatuses": status.get("nodeAllocatableResourceClaimStatuses"),
        "conditions": _conditions(obj),
        "resourceClaimStatuses": sorted(status.get("resourceClaimStatuses") or (), key=lambda one: str(one["name"])),
        "grace": metadata.get("deletionGracePeriodSeconds") if "deletionTimestamp" in metadata else None,
        "index": labels.get("batch.kubernetes.io/job-completion-index"),
        **{name: annotations.get(f"batch.kubernetes.io/{name}") for name in counts},
    }


def _claim(obj: Json) -> Json:
    status = obj.get("status") or {}
    return {
        "annotations": obj["metadata"].get("annotations"),
        "spec": obj["spec"] if obj["metadata"].get("ownerReferences") else None,
        "allocation": status.get("allocation"),
        "reservedFor": _by_text(status.get("reservedFor")),
        "devices": _by_text(status.get("devices")),
    }


def _workload(obj: Json) -> Json:
    status = obj.get("status") or {}
    annotations = obj["metadata"].get("annotations") or {}
    return {
        "replicas": obj["spec"].get("replicas"),
        "revision": annotations.get("deployment.kubernetes.io/revision"),
        "status": _numbers(status, "observedGeneration", "collisionCount"),
        "conditions": _conditions(obj),
        **_picked(status, "currentRevision", "updateRevision"),
    }


def _job(obj: Json) -> Json:
    status = obj.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    return {
        "status": _numbers(status),
        **_picked(status, "completedIndexes", "failedIndexes"),
        "conditions": _conditions(obj),
        "startTime": bool(status.get("startTime")) or None,
        "completionTime": bool(status.get("completionTime")) or None,
        "suspend": bool(obj["spec"].get("suspend")) or None,
        "uncounted": {name: len(uids) for name, uids in uncounted.items() if uids},
    }


def _cron_job(obj: Json) -> Json:
    status = obj.get("status") or {}
    return {
        "active": sorted(reference["name"] for reference in status.get("active") or ()),
        "lastScheduleTime": bool(status.get("lastScheduleTime")) or None,
        "lastSuccessfulTime": bool(status.get("lastSuccessfulTime")) or None,
    }


def _node(obj: Json) -> Json:
    spec = obj.get("spec") or {}

    def is_told(condition: Json) -> bool:
        return bool(condition["status"] != ("True" if condition["type"] == "Ready" else "False"))

    return {
        "unschedulable": bool(spec.get("unschedulable")) or None,
        "taints": sorted(
            (_picked(taint, "key", "value", "effect") for taint in spec.get("taints") or ()),
            key=lambda taint: [taint[name] or "" for name in ("key", "value", "effect")],
        ),
        "conditions": [condition for condition in _conditions(obj) if is_told(condition)],
    }


def _budget(obj: Json) -> Json:
    status = obj.get("status") or {}
    counts = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    return {
        **{name: status.get(name, 0) for name in counts},
        "disruptedPods": sorted(status.get("disruptedPods") or ()),
        "conditions": _conditions(obj),
    }


def _with_status(obj: Json) -> Json:
    status = obj.get("status") or {}
    kept = {name: value for name, value in status.items() if name not in ("conditions", "observedGeneration")}
    return {"status": kept, "conditions": _conditions(obj)}


_SECTIONS: Final = {
    "pods": _pod,
    "claims": _claim,
    **dict.fromkeys(("deployments", "replicasets", "replicationcontrollers", "statefulsets", "daemonsets"), _workload),
    "revisions": lambda obj: _picked(obj, "revision"),
    "jobs": _job,
    "cronjobs": _cron_job,
    "nodes": _node,
    "quotas": lambda obj: _picked(obj.get("status") or {}, "hard", "used"),
    "budgets": _budget,
    **dict.fromkeys(("taintrules", "poolrequests", "podgroups"), _with_status),
    "namespaces": lambda obj: {"phase": (obj.get("status") or {}).get("phase"), "conditions": _conditions(obj)},
}
