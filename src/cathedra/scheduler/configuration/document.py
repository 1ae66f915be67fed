"""The form of ``kubescheduler.config.k8s.io/v1`` files: fields that are not known are errors."""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from cathedra.api.core.core_v1 import NodeAffinity, TopologySpreadConstraint
from cathedra.api.decoding.gotypes import GoType, ValueForm, go_type_of
from cathedra.api.scheme import GroupVersionKind
from cathedra.scheduler.configuration import document

DEFAULT_SCHEDULER: Final = "default-scheduler"


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A mapping of the file."""


class LeaderElection(_Strict, frozen=True):
    """Leader election among several schedulers."""

    leader_elect: bool | None = None
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(_Strict, frozen=True):
    """Connection to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 50
    burst: int = 100


class PluginRef(_Strict, frozen=True):
    """A plugin by name; the weight counts where nodes are scored."""

    name: str = ""
    weight: int | None = None


class PluginSet(_Strict, frozen=True):
    """Changes of one extension point."""

    enabled: list[PluginRef] | None = None
    disabled: list[PluginRef] | None = None


class Plugins(_Strict, frozen=True):
    """Changes of all extension points."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_feasible: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()


class PluginConfig(_Strict, frozen=True):
    """Arguments of a plugin."""

    name: str = ""
    args: dict[str, Any] | None = None


class ProfileDocument(_Strict, frozen=True):
    """A scheduler name and the plugins behind it."""

    scheduler_name: str | None = None
    """None: the default, where there is no other profile."""
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] | None = None


class Document(_Strict, frozen=True):
    """The whole configuration file."""

    api_version: str = ""
    kind: str = ""
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    health_probe_bind_address: str = ""
    metrics_bind_address: str = ""
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: list[ProfileDocument] | None = None
    extenders: list[Any] | None = None
    delay_cache_until_active: bool = False


class ResourceWeight(_Strict, frozen=True):
    """A resource that counts when nodes are scored."""

    name: str = ""
    weight: int = 1


class UtilizationPoint(_Strict, frozen=True):
    """A point of a broken line: the score, 0 to 10, at a utilization in percent."""

    utilization: int = 0
    score: int = 0


class RatioParameters(_Strict, frozen=True):
    """The line of RequestedToCapacityRatio."""

    shape: list[UtilizationPoint] | None = None


class ScoringStrategy(_Strict, frozen=True):
    """Scoring of nodes by their utilization."""

    type: str = "LeastAllocated"
    resources: list[ResourceWeight] | None = None
    requested_to_capacity_ratio: RatioParameters | None = None


class _Args(_Strict, frozen=True):
    api_version: str = "kubescheduler.config.k8s.io/v1"
    kind: str = ""


class FitArgs(_Args, frozen=True):
    """Arguments of the plugin NodeResourcesFit."""

    ignored_resources: list[str] | None = None
    ignored_resource_groups: list[str] | None = None
    scoring_strategy: ScoringStrategy | None = None


class DynamicResourcesArgs(_Args, frozen=True):
    """Of DynamicResources; durations as Go writes them."""

    filter_timeout: str | None = None
    binding_timeout: str | None = None


class BalancedAllocationArgs(_Args, frozen=True):
    """Arguments of the plugin NodeResourcesBalancedAllocation."""

    resources: list[ResourceWeight] | None = None


class PreemptionArgs(_Args, frozen=True):
    """Arguments of the plugin DefaultPreemption."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class JointPlacementArgs(_Args, frozen=True):
    """Arguments of the plugin JointPlacement."""

    max_trials: int = 200
    """Largest number of searches for a node in one attempt of a gang."""


class DeviceScoringArgs(_Args, frozen=True):
    """Arguments of the plugin DeviceScoring."""

    strategy: str = "BestFit"
    """«BestFit», «LeastFragmentation», «MostAllocated», «LeastAllocated» or «Spread»."""
    attribute: str = ""
    """With «Spread»: the attribute of devices whose values are the domains, with its driver or domain."""


class InterPodAffinityArgs(_Args, frozen=True):
    """Arguments of the plugin InterPodAffinity."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(_Args, frozen=True):
    """Arguments of the plugin NodeAffinity."""

    added_affinity: NodeAffinity | None = None


class SpreadArgs(_Args, frozen=True):
    """Arguments of the plugin PodTopologySpread."""

    default_constraints: list[TopologySpreadConstraint] | None = None
    defaulting_type: str = "System"


class VolumeBindingArgs(_Args, frozen=True):
    """Of VolumeBinding, a plugin that is not here; its arguments are checked and have no effect."""

    bind_timeout_seconds: int = 600
    shape: list[UtilizationPoint] | None = None


# --- Go types


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
"""Go types of component-base, which all programs share; all others are those of v1."""
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
    """Return the type that a mapping of the file is decoded as, and its name in Kubernetes' errors."""
    name = _NAMES.get(kind, kind.__name__)
    made = GoType(ValueForm.STRUCT, f"{_PACKAGES.get(kind, 'v1')}.{name}", embedded=dict(_EMBEDDED.get(kind, {})))
    for one in msgspec.structs.fields(kind):
        made.fields[one.encode_name] = _of(one.type, one.name, name)
    return made


def _of(kind: Any, field_name: str, owner: str) -> GoType:
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(choice for choice in get_args(kind) if choice is not type(None))
    if get_origin(kind) is list:
        element = _of(get_args(kind)[0], field_name, owner)
        return GoType(ValueForm.LIST, f"[]{element.name}", element=element)
    if kind is str:
        name = _TEXT_TYPES.get(field_name, "string")
        return GoType(ValueForm.DURATION, "v1.Duration") if field_name in _DURATIONS else GoType(ValueForm.STRING, name)
    if kind is bool:
        return GoType(ValueForm.BOOL, "bool")
    if kind is int:
        bits = 64 if (owner, field_name) in _INT64 else 32
        return GoType(ValueForm.INTEGER, f"int{bits}", bits=bits)
    if kind is float:
        return GoType(ValueForm.FLOAT, "float32")
    if kind in (NodeAffinity, TopologySpreadConstraint):
        return _core(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return go_type_of_file(kind)
    return GoType(ValueForm.OPAQUE, "runtime.RawExtension")


def _core(kind: type[msgspec.Struct]) -> GoType:
    """Return the type of a part of a pod's spec that profiles have too."""
    spec = go_type_of(GroupVersionKind("", "v1", "Pod")).fields["spec"].fields
    if kind is NodeAffinity:
        return spec["affinity"].fields["nodeAffinity"]
    element = spec["topologySpreadConstraints"].element
    assert element is not None
    return element
