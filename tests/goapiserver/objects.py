"""The objects of a `GoAPIServer`, in memory: versions, history and the rules of writing that clients rely on.

The rules are the few without which scheduler, controllers and node agent do not work: optimistic concurrency, status
apart from spec, finalizers, graceful deletion of pods. There is no validation and no defaulting, so an object may be as
odd as a test needs it.
"""

from __future__ import annotations

import copy
import datetime
import json
import random
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cathedra.api.scheme import GroupVersionKind
from cathedra.apiserver.patches.schema import Shape, struct_shape
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tests.goapiserver.writing import go_object, to_json

__all__ = ["Change", "ObjectStore", "Refused", "Resource", "Stored", "served_resources"]

_RANDOM_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_FINISHED: Final = ("Succeeded", "Failed")


class Refused(Exception):
    """A request is refused with a status code and a reason of Kubernetes."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        self.code, self.reason, self.details = code, reason, dict(details or {})
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource in the version in which it is served."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    has_status: bool
    shape: Shape | None
    """Schema of strategic merge patches; None for custom resources."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of an object."""

    namespace: str
    name: str
    version: int
    value: dict[str, Any]
    """Plain values; empty if ``body`` is no JSON object."""
    body: bytes
    """Bytes that are sent for it."""

    @property
    def labels(self) -> dict[str, str]:
        """The labels, as far as they are texts."""
        metadata = self.value.get("metadata")
        found = metadata.get("labels") if isinstance(metadata, dict) else None
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of the history: an object before and after a write."""

    version: int
    resource: Resource
    before: Stored | None
    after: Stored | None


def served_resources(release: str, *, without: Iterable[str] = ()) -> dict[tuple[str, str, str], Resource]:
    """(group, version, plural) → resource, each kind in its preferred version, but for the plurals ``without``."""
    found: dict[tuple[str, str, str], Resource] = {}
    for definition in all_definitions(FeatureGates.for_release(release)):
        version = definition.versions[0]
        if definition.plural in without:
            continue
        gvk = GroupVersionKind(definition.group, version.name, definition.kind)
        has_status = "status" in definition.subresources
        shape = struct_shape(version.type)
        found[definition.group, version.name, definition.plural] = Resource(
            gvk, definition.plural, definition.namespaced, has_status, shape
        )
    return found


class ObjectStore:
    """All objects of a server. Methods may be called from any thread; ``changed`` is called after each write."""

    def __init__(self, *, null_times: bool, newer_fields: Mapping[str, Any], chance: random.Random) -> None:
        self._null_times = null_times
        self._newer_fields = newer_fields
        self._chance = chance
        self._objects: dict[Resource, dict[tuple[str, str], Stored]] = {}
        self._history: list[Change] = []
        self._lock = threading.RLock()
        self._oldest = 0
        self.version = 1
        self.changed: list[Callable[[], None]] = []

    def all_of(self, resource: Resource) -> tuple[list[Stored], int]:
        """The objects of a resource in order of their keys, and the version of the list."""
        with self._lock:
            return [stored for _, stored in sorted(self._objects.get(resource, {}).items())], self.version

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        """One object.

        Raises:
            Refused: 404.
        """
        with self._lock:
            found = self._objects.get(resource, {}).get((namespace, name))
        if found is None:
            raise _not_found(resource, name)
        return found

    def since(self, version: int) -> list[Change]:
        """The changes after a version.

        Raises:
            Refused: 410, the history begins later.
        """
        with self._lock:
            if version < self._oldest:
                raise Refused(410, "Expired", f"too old resource version: {version} ({self._oldest})")
            start = next((place for place, one in enumerate(self._history) if one.version > version), None)
            return [] if start is None else self._history[start:]

    def compact(self) -> None:
        """Forget the history: a watch from an older version is refused with 410."""
        with self._lock:
            self._history.clear()
            self._oldest = self.version

    def put(self, resource: Resource, value: Mapping[str, Any]) -> Stored:
        """Store an object as Go would, whatever was there, its status included."""
        with self._lock:
            made = copy.deepcopy(dict(value))
            metadata = made.setdefault("metadata", {})
            namespace = metadata.get("namespace", "") if resource.namespaced else ""
            before = self._objects.get(resource, {}).get((namespace, metadata["name"]))
            return self._write(resource, before, self._completed(resource, made, before))

    def put_verbatim(
        self, resource: Resource, body: bytes | Mapping[str, Any], *, name: str = "", namespace: str = ""
    ) -> Stored:
        """Store an object that is sent byte for byte as ``body``, or as JSON of it with a resourceVersion of its own.

        ``name`` and ``namespace`` are read from the body by default.
        """
        with self._lock:
            if isinstance(body, bytes):
                value, sent = _parsed(body), body
            else:
                value = copy.deepcopy(dict(body))
                value["metadata"] = {**value.get("metadata", {}), "resourceVersion": str(self.version + 1)}
                sent = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
            metadata = value.get("metadata") or {}
            key = (namespace or metadata.get("namespace", ""), name or metadata["name"])
            before = self._objects.get(resource, {}).get(key)
            return self._enter(resource, before, Stored(*key, self.version + 1, value, sent))

    def create(self, resource: Resource, namespace: str, value: dict[str, Any]) -> Stored:
        """Store a new object.

        Raises:
            Refused: 409, the name is taken.
        """
        with self._lock:
            metadata = value.setdefault("metadata", {})
            if not metadata.get("name"):
                suffix = "".join(self._chance.choices(_RANDOM_LETTERS, k=5))
                metadata["name"] = f"{metadata.get('generateName', '')}{suffix}"
            if resource.namespaced:
                metadata["namespace"] = namespace
            if (namespace, metadata["name"]) in self._objects.get(resource, {}):
                message = f'{_plural(resource)} "{metadata["name"]}" already exists'
                raise Refused(409, "AlreadyExists", message, {"name": metadata["name"], "kind": resource.plural})
            if resource.has_status:
                value.pop("status", None)
            return self._write(resource, None, self._completed(resource, value, None))

    def update(
        self, resource: Resource, namespace: str, name: str, value: dict[str, Any], *, subresource: str = ""
    ) -> Stored:
        """Replace an object, or its status alone.

        Raises:
            Refused: 404, or 409 if the object has changed since it was read.
        """
        with self._lock:
            before = self.get(resource, namespace, name)
            expected = value.get("metadata", {}).get("resourceVersion", "")
            if expected and expected != str(before.version):
                raise _conflict(resource, name, "the object has been modified; please apply your changes to the latest")
            uid = value.get("metadata", {}).get("uid", "")
            if uid and uid != before.value["metadata"].get("uid"):
                raise _conflict(resource, name, "Precondition failed: UID in precondition is another")
            made = copy.deepcopy(before.value)
            if subresource == "status":
                made["status"] = value.get("status")
            else:
                kept = {"status": made["status"]} if resource.has_status and "status" in made else {}
                made = copy.deepcopy({**value, **kept})
            completed = self._completed(resource, made, before)
            if _is_over(completed):
                return self._enter(resource, before, None)
            return self._write(resource, before, completed)

    def bind(self, resource: Resource, namespace: str, name: str, node: str) -> None:
        """Assign a pod to a node.

        Raises:
            Refused: 404, or 409 if it is assigned already.
        """
        with self._lock:
            before = self.get(resource, namespace, name)
            if before.value.get("spec", {}).get("nodeName"):
                raise _conflict(resource, name, f"pod {name} is already assigned to node")
            made = copy.deepcopy(before.value)
            made["spec"]["nodeName"] = node
            status = made.get("status") or {}
            scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": _now()}
            others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
            made["status"] = {**status, "conditions": [*others, scheduled]}
            self._write(resource, before, made)

    def delete(self, resource: Resource, namespace: str, name: str, options: Mapping[str, Any]) -> tuple[Stored, bool]:
        """Delete an object, or mark it; returns its last state and True if it is gone.

        Raises:
            Refused: 404, or 409 if a precondition does not hold.
        """
        with self._lock:
            before = self.get(resource, namespace, name)
            metadata = before.value.get("metadata") or {}
            for field, wanted in (options.get("preconditions") or {}).items():
                if wanted != metadata.get(field):
                    raise _conflict(resource, name, f"Precondition failed: {field} in precondition: {wanted}")
            grace = _grace(resource, before.value, options)
            if not grace and not metadata.get("finalizers"):
                return self._enter(resource, before, None), True
            made = copy.deepcopy(before.value)
            made["metadata"].setdefault("deletionTimestamp", _now(grace))
            made["metadata"]["deletionGracePeriodSeconds"] = grace
            return self._write(resource, before, made), False

    def _completed(self, resource: Resource, value: dict[str, Any], before: Stored | None) -> dict[str, Any]:
        """The object with what the server itself keeps in its metadata."""
        metadata = value.setdefault("metadata", {})
        old = before.value.get("metadata") or {} if before is not None else {}
        kept = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
        metadata.update({name: old[name] for name in kept if name in old})
        metadata.setdefault("uid", str(uuid.UUID(int=self._chance.getrandbits(128), version=4)))
        if not metadata.get("creationTimestamp"):
            metadata["creationTimestamp"] = _now()
        if "spec" in value and (before is None or before.value.get("spec") != value["spec"]):
            metadata["generation"] = metadata.get("generation", 0) + 1
        metadata["managedFields"] = [
            {
                "manager": "go-http-client",
                "operation": "Update",
                "apiVersion": resource.gvk.api_version,
                "time": metadata["creationTimestamp"],
                "fieldsType": "FieldsV1",
                "fieldsV1": _owned({key: item for key, item in value.items() if key in ("spec", "status", "data")}),
            }
        ]
        return value

    def _write(self, resource: Resource, before: Stored | None, value: dict[str, Any]) -> Stored:
        written = go_object(value, resource.gvk, null_times=self._null_times)
        for part in (written["metadata"], written.get("spec"), written.get("status")):
            if isinstance(part, dict):
                part.update(self._newer_fields)
        metadata = written["metadata"]
        if before is not None:
            metadata["resourceVersion"] = str(before.version)
            if to_json(written) == before.body:
                return before  # nothing has changed: as in Kubernetes, no new version
        metadata["resourceVersion"] = str(self.version + 1)
        # The place of a field that was not there before is the struct's, not the end.
        written = go_object(written, resource.gvk, null_times=self._null_times)
        key = (metadata.get("namespace", "") if resource.namespaced else "", metadata["name"])
        return self._enter(resource, before, Stored(*key, self.version + 1, written, to_json(written)))

    def _enter(self, resource: Resource, before: Stored | None, after: Stored | None) -> Stored:
        self.version += 1
        shown = after if after is not None else before
        assert shown is not None
        objects = self._objects.setdefault(resource, {})
        if after is None:
            del objects[shown.namespace, shown.name]
            before = shown = self._last_state(resource, shown)
        else:
            objects[shown.namespace, shown.name] = after
        self._history.append(Change(self.version, resource, before, after))
        for changed in self.changed:
            changed()
        return shown

    def _last_state(self, resource: Resource, stored: Stored) -> Stored:
        """Return the last state of a deleted object, with the version of its deletion."""
        if stored.body != to_json(stored.value) or not stored.value:
            return stored  # one that is sent verbatim
        value = {**stored.value, "metadata": {**stored.value["metadata"], "resourceVersion": str(self.version)}}
        return Stored(stored.namespace, stored.name, self.version, value, to_json(value))


def _grace(resource: Resource, value: Mapping[str, Any], options: Mapping[str, Any]) -> int:
    """Seconds that an object still has; only pods on nodes have any."""
    spec, status = value.get("spec") or {}, value.get("status") or {}
    if resource.gvk.kind != "Pod" or not spec.get("nodeName") or status.get("phase") in _FINISHED:
        return 0
    wanted = options.get("gracePeriodSeconds")
    return int(spec.get("terminationGracePeriodSeconds") or 30) if wanted is None else int(wanted)


def _is_over(value: Mapping[str, Any]) -> bool:
    """Return True if an object that was marked for deletion has lost its last finalizer."""
    metadata = value["metadata"]
    marked = metadata.get("deletionTimestamp") and not metadata.get("deletionGracePeriodSeconds")
    return bool(marked) and not metadata.get("finalizers")


def _owned(value: Mapping[str, Any]) -> dict[str, Any]:
    return {f"f:{key}": _owned(item) if isinstance(item, dict) else {} for key, item in sorted(value.items())}


def _now(later: int = 0) -> str:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=later)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _plural(resource: Resource) -> str:
    return f"{resource.plural}.{resource.gvk.group}" if resource.gvk.group else resource.plural


def _not_found(resource: Resource, name: str) -> Refused:
    details = {"name": name, "group": resource.gvk.group, "kind": resource.plural}
    return Refused(404, "NotFound", f'{_plural(resource)} "{name}" not found', details)


def _conflict(resource: Resource, name: str, why: str) -> Refused:
    message = f'Operation cannot be fulfilled on {_plural(resource)} "{name}": {why}'
    return Refused(409, "Conflict", message, {"name": name, "kind": resource.plural})
