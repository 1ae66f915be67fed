"""The kubectl commands that carry out a remedy.

Specs of claims, templates and most of a pod are immutable. They are replaced: kubectl reads the object, changes it
locally and creates it again, so that no other program than kubectl is needed. Changes are JSON patches, made from the
object before and after.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import kind_of
from cathedra.api.struct import to_dict
from cathedra.insight.reading.dumps import definition_of
from cathedra.insight.reading.state import read_kind
from cathedra.releases import FeatureGates
from cathedra.releases.served import device_versions

_SHAPED_AS_V1 = ("v1", "v1beta2")
"""Versions of resource.k8s.io that a request with ``exactly`` has in common; a server has at most one of them less."""


def created(one: KubeObject, gates: FeatureGates) -> str:
    """Return the command that creates an object without a namespace."""
    fields = _fields(one, gates)
    kind = kind_of(type(one))
    fields = {
        "apiVersion": f"{kind.group}/{_version(one, gates)}".lstrip("/"),
        "kind": kind.kind,
        "metadata": {"name": one.metadata.name},
        **{name: value for name, value in fields.items() if name not in ("apiVersion", "kind", "metadata", "status")},
    }
    return f"echo {shlex.quote(_compact(fields))} | kubectl create -f -"


def deleted(one: KubeObject) -> str:
    """Return the command that deletes an object."""
    return f"kubectl {_where(one)}delete {_singular(one)} {one.metadata.name}"


def recreated(one: KubeObject) -> str:
    """Return the command that deletes an object and creates the same again."""
    where = _where(one)
    return f"kubectl {where}get {_singular(one)} {one.metadata.name} -o json | kubectl replace --force -f -"


def replaced(old: KubeObject, new: KubeObject, gates: FeatureGates) -> str:
    """Return the command that deletes an object and creates it again with other values."""
    changes = shlex.quote(_compact(list(_operations(_fields(old, gates), _fields(new, gates), ""))))
    return (
        f"kubectl {_where(old)}get {_resource(old, gates)} {old.metadata.name} -o json "
        f"| kubectl patch --local -f - --type=json -p {changes} -o json | kubectl replace --force -f -"
    )


def patched(old: KubeObject, new: KubeObject, gates: FeatureGates) -> str:
    """Return the command that changes an object in place."""
    changes = shlex.quote(_compact(list(_operations(_fields(old, gates), _fields(new, gates), ""))))
    return f"kubectl {_where(old)}patch {_singular(old)} {old.metadata.name} --type=json -p {changes}"


def scaled(workload: KubeObject, replicas: int) -> str:
    """Return the command that scales a workload."""
    return f"kubectl {_where(workload)}scale {_singular(workload)} {workload.metadata.name} --replicas={replicas}"


def suspended(job: KubeObject) -> str:
    """Return the command that suspends a job, which deletes its pods."""
    changes = shlex.quote(_compact({"spec": {"suspend": True}}))
    return f"kubectl {_where(job)}patch {_singular(job)} {job.metadata.name} --type=merge -p {changes}"


def _operations(old: Any, new: Any, path: str) -> Iterator[JSONObject]:
    """Yield the operations of the JSON patch (RFC 6902) that makes ``new`` of ``old``."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in old:
            inner = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if name in new:
                yield from _operations(old[name], new[name], inner)
            else:
                yield {"op": "remove", "path": inner}
        for name in new:
            if name not in old:
                inner = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
                yield {"op": "add", "path": inner, "value": new[name]}
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _operations(one, other, f"{path}/{place}")
    elif isinstance(old, list) and isinstance(new, list) and old == new[: len(old)]:
        for value in new[len(old) :]:
            yield {"op": "add", "path": f"{path}/-", "value": value}
    else:
        yield {"op": "replace", "path": path, "value": new}


def _fields(one: KubeObject, gates: FeatureGates) -> Any:
    """Return the object's fields in the version that the release serves; metadata does not differ between versions."""
    kind = kind_of(type(one))
    definition = definition_of(kind.group, kind.kind)
    if definition is None or not _is_of_devices(one):
        return to_dict(one)
    return to_dict(definition.version(_version(one, gates)).from_hub(one))


def _version(one: KubeObject, gates: FeatureGates) -> str:
    if not _is_of_devices(one):
        return kind_of(type(one)).version
    served = device_versions(gates.release)
    return next((version for version in _SHAPED_AS_V1 if version in served), served[0])


def _is_of_devices(one: KubeObject) -> bool:
    return kind_of(type(one)).group == "resource.k8s.io"


def _resource(one: KubeObject, gates: FeatureGates) -> str:
    """Return the resource's name with its version: in another one the paths of the patch would be wrong."""
    if not _is_of_devices(one):
        return _singular(one)
    return f"{read_kind(type(one)).plural}.{_version(one, gates)}.{kind_of(type(one)).group}"


def _singular(one: KubeObject) -> str:
    return type(one).__name__.lower()


def _where(one: KubeObject) -> str:
    namespace = one.metadata.namespace
    return f"-n {namespace} " if namespace else ""


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
