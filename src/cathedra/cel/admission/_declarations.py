"""Variables and types that expressions of admission policies may use (docs/spec/cel.md §10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type
from cathedra.cel.environment import BASE_LIBRARIES, Environment

_TEXTS: Final = types.list_of(types.STRING)
_TEXT_MAP: Final = types.map_of(types.STRING, types.STRING)


def _texts(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, types.STRING)


_GVK: Final = types.struct("kubernetes.GroupVersionKind")
_GVR: Final = types.struct("kubernetes.GroupVersionResource")
_OBJECTS: Final[dict[str, dict[str, Type]]] = {
    "kubernetes.GroupVersionKind": _texts("group", "version", "kind"),
    "kubernetes.GroupVersionResource": _texts("group", "version", "resource"),
    "kubernetes.UserInfo": {
        **_texts("username", "uid"),
        "groups": _TEXTS,
        "extra": types.map_of(types.STRING, _TEXTS),
    },
    "kubernetes.AdmissionRequest": {
        **_texts("subResource", "requestSubResource", "name", "namespace", "operation"),
        "kind": _GVK,
        "resource": _GVR,
        "requestKind": _GVK,
        "requestResource": _GVR,
        "userInfo": types.struct("kubernetes.UserInfo"),
        "dryRun": types.BOOL,
        "options": types.DYN,
    },
    "kubernetes.NamespaceMetadata": {
        **_texts("name", "generateName", "namespace", "UID", "resourceVersion"),
        "labels": _TEXT_MAP,
        "annotations": _TEXT_MAP,
        "creationTimestamp": types.TIMESTAMP,
        "deletionTimestamp": types.TIMESTAMP,
        "deletionGracePeriodSeconds": types.INT,
        "generation": types.INT,
        "finalizers": _TEXTS,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _TEXTS},
    "kubernetes.NamespaceCondition": {
        **_texts("type", "status", "reason", "message"),
        "lastTransitionTime": types.TIMESTAMP,
    },
    "kubernetes.NamespaceStatus": {
        "phase": types.STRING,
        "conditions": types.list_of(types.struct("kubernetes.NamespaceCondition")),
    },
    "kubernetes.Namespace": {
        "metadata": types.struct("kubernetes.NamespaceMetadata"),
        "spec": types.struct("kubernetes.NamespaceSpec"),
        "status": types.struct("kubernetes.NamespaceStatus"),
    },
}
_VARIABLES: Final = "kubernetes.variables"


NAMESPACE_METADATA: Final = frozenset(_OBJECTS["kubernetes.NamespaceMetadata"]) | {"uid"}
"""The fields of a namespace's metadata that expressions see."""


def environment(
    *, params: bool, authorizer: bool, variables: Mapping[str, Type] | None = None, patches: bool = False
) -> Environment:
    """Return the environment of a policy's expressions. ``variables`` are the composed variables declared before, by
    type.

    With ``patches`` it may write patches: ``Object{…}``, ``JSONPatch{…}`` and ``jsonpatch.escapeKey()``.
    """
    declared: dict[str, Type] = {
        "object": types.DYN,
        "oldObject": types.DYN,
        "request": types.struct("kubernetes.AdmissionRequest"),
        "namespaceObject": types.struct("kubernetes.Namespace"),
    }
    if params:
        declared["params"] = types.DYN
    if authorizer:
        declared["authorizer"] = types.AUTHORIZER
        declared["authorizer.requestResource"] = types.RESOURCE_CHECK
    objects: dict[str, Mapping[str, Type]] = dict(_OBJECTS)
    if variables is not None:
        declared["variables"] = types.struct(_VARIABLES)
        objects[_VARIABLES] = dict(variables)
    if not patches:
        return Environment(variables=declared, objects=objects)
    return Environment(variables=declared, objects=objects, libraries=(*BASE_LIBRARIES, "json patch"), patch_types=True)


def typed_environment(
    object_type: Type | None,
    params: Type | None,
    objects: Mapping[str, Mapping[str, Type]],
    variables: Mapping[str, Type],
) -> Environment:
    """Return the environment for type checks: objects have types, ``params`` exists if its type is known, and the
    authorizer is a variable without a type."""
    declared: dict[str, Type] = {
        "object": object_type or types.DYN,
        "oldObject": object_type or types.DYN,
        "request": types.struct("kubernetes.AdmissionRequest"),
        "namespaceObject": types.struct("kubernetes.Namespace"),
        "authorizer": types.AUTHORIZER,
        "variables": types.struct(_VARIABLES),
    }
    if params is not None:
        declared["params"] = params
    return Environment(variables=declared, objects={**_OBJECTS, **objects, _VARIABLES: dict(variables)})
