"""Kubernetes' own names of what stands in configuration files: errors about values of a wrong type speak of them."""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from cathedra.api.core.core_v1 import NodeAffinity, TopologySpreadConstraint
from cathedra.api.decoding.gotypes import Form, GoType, go_type_of
from cathedra.api.scheme import GroupVersionKind
from cathedra.scheduler.configuration import document

__all__ = ["go_type_of_file"]

_NAMES: Final[Mapping[type[msgspec.Struct], str]] = {
    document.Document: "KubeSchedulerConfiguration",
    document.LeaderElection: "LeaderElectionConfiguration",
    document.ClientConnection: "ClientConnectionConfiguration",
    document.ProfileDocument: "KubeSchedulerProfile",
    document.PluginRef: "Plugin",
    document.ResourceWeight: "ResourceSpec",
    document.UtilizationPoint: "UtilizationShapePoint",
    document.RatioParameters: "RequestedToCapacityRatioParam",
    document.FitArgs: "NodeResourcesFitArgs",
    document.BalancedAllocationArgs: "NodeResourcesBalancedAllocationArgs",
    document.PreemptionArgs: "DefaultPreemptionArgs",
    document.SpreadArgs: "PodTopologySpreadArgs",
}
"""Structs that have another name in Kubernetes."""
_PACKAGES: Final[Mapping[type[msgspec.Struct], str]] = {
    document.LeaderElection: "v1alpha1",
    document.ClientConnection: "v1alpha1",
}
"""Those of the components that are shared by all programs; all others are v1."""
_DURATIONS: Final = frozenset({"lease_duration", "renew_deadline", "retry_period", "filter_timeout", "binding_timeout"})
_INT64: Final = frozenset(
    {
        ("KubeSchedulerConfiguration", "pod_initial_backoff_seconds"),
        ("KubeSchedulerConfiguration", "pod_max_backoff_seconds"),
        ("ResourceSpec", "weight"),
        ("VolumeBindingArgs", "bind_timeout_seconds"),
    }
)
_EMBEDDED: Final[Mapping[type[msgspec.Struct], Mapping[str, str]]] = {
    document.Document: dict.fromkeys(("enableProfiling", "enableContentionProfiling"), "DebuggingConfiguration"),
}
_TEXT_TYPES: Final[Mapping[str, str]] = {
    "defaulting_type": "v1.PodTopologySpreadConstraintsDefaulting",
    "type": "v1.ScoringStrategyType",
}
"""Texts of a type of their own."""


@cache
def go_type_of_file(kind: type[msgspec.Struct]) -> GoType:
    """How a mapping of the file is read, and what Kubernetes calls it."""
    name = _NAMES.get(kind, kind.__name__)
    made = GoType(Form.STRUCT, f"{_PACKAGES.get(kind, 'v1')}.{name}", embedded=dict(_EMBEDDED.get(kind, {})))
    for one in msgspec.structs.fields(kind):
        made.fields[one.encode_name] = _of(one.type, one.name, name)
    return made


def _of(kind: Any, field_name: str, owner: str) -> GoType:
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(choice for choice in get_args(kind) if choice is not type(None))
    if get_origin(kind) is list:
        element = _of(get_args(kind)[0], field_name, owner)
        return GoType(Form.LIST, f"[]{element.name}", element=element)
    if kind is str:
        name = _TEXT_TYPES.get(field_name, "string")
        return GoType(Form.DURATION, "v1.Duration") if field_name in _DURATIONS else GoType(Form.STRING, name)
    if kind is bool:
        return GoType(Form.BOOL, "bool")
    if kind is int:
        bits = 64 if (owner, field_name) in _INT64 else 32
        return GoType(Form.INTEGER, f"int{bits}", bits=bits)
    if kind is float:
        return GoType(Form.FLOAT, "float32")
    if kind in (NodeAffinity, TopologySpreadConstraint):
        return _core(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return go_type_of_file(kind)
    return GoType(Form.OPAQUE, "runtime.RawExtension")


def _core(kind: type[msgspec.Struct]) -> GoType:
    """A part of a pod, which profiles have too."""
    spec = go_type_of(GroupVersionKind("", "v1", "Pod")).fields["spec"].fields
    if kind is NodeAffinity:
        return spec["affinity"].fields["nodeAffinity"]
    element = spec["topologySpreadConstraints"].element
    assert element is not None
    return element
