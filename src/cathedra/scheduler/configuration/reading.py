"""From the text of a ``KubeSchedulerConfiguration`` to the profiles that the scheduler runs, or what is wrong with it.

Everything in the file either has its effect or is an error: an unknown field, a plugin that does not exist, and
arguments that this scheduler cannot honour (docs/spec/scheduling.md §17).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.core.core_v1 import NodeAffinity, TopologySpreadConstraint
from cathedra.api.decoding import DecodeError, read_yaml
from cathedra.api.decoding.reader import Reader, parse
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.goquote import go_quote
from cathedra.cel.library.times import parse_duration
from cathedra.scheduler.configuration.document import (
    DEFAULT_SCHEDULER,
    BalancedAllocationArgs,
    DeviceScoringArgs,
    Document,
    DynamicResourcesArgs,
    FitArgs,
    InterPodAffinityArgs,
    JointPlacementArgs,
    LeaderElection,
    NodeAffinityArgs,
    PluginConfig,
    Plugins,
    PreemptionArgs,
    ProfileDocument,
    SpreadArgs,
    VolumeBindingArgs,
    go_type_of_file,
)
from cathedra.scheduler.configuration.enablement import (
    KNOWN_PLUGINS,
    Enablement,
    EnablementError,
    enabled,
)
from cathedra.scheduler.configuration.strategy import LEAST_ALLOCATED, FitScoring, fit_scoring
from cathedra.scheduler.configuration.validation import argument_errors, document_errors

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
FILTER_TIMEOUT: Final = 10.0
BINDING_TIMEOUT: Final = 600.0

T = TypeVar("T", bound=msgspec.Struct)


class ConfigurationError(ValueError):
    """A scheduler configuration cannot be used; each line of the text is one reason."""


class ProfileConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler name with its plugins and their arguments."""

    name: str = "default-scheduler"
    percentage_of_nodes_to_score: int = 0
    """0: adapted to the size of the cluster."""
    plugins: Enablement = msgspec.field(default_factory=lambda: enabled(Plugins()))
    scoring: FitScoring = LEAST_ALLOCATED
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    filter_timeout: float = FILTER_TIMEOUT
    """Seconds that the allocator may take for one node; 0 is no limit."""
    binding_timeout: float = BINDING_TIMEOUT
    """Seconds until devices' binding conditions must be true."""
    hard_affinity_weight: int = 1
    """Of required affinity of pods already there, in scores."""
    ignores_wishes_of_others: bool = False
    """True if preferences of existing pods count only for pods that have preferences of their own."""
    added_affinity: NodeAffinity | None = None
    """Of all pods, beside their own."""
    default_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    """Of pods that have none of their own; None: those that Kubernetes has for all."""
    candidate_percentage: int = 10
    joint_trials: int = 200
    """Largest number of searches for a node that JointPlacement makes in one attempt of a gang."""
    device_strategy: str = "BestFit"
    """The strategy of DeviceScoring."""
    spread_attribute: str = ""
    """Attribute of devices whose values are the domains of the strategy Spread."""
    fewest_candidates: int = 100
    """Least number of candidate nodes that are compared before pods are evicted from one of them."""


class LeaseConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """The lease of the working scheduler. Seconds."""

    elect: bool | None = None
    """None if the file does not set it."""
    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class SchedulerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a scheduler's configuration file."""

    profiles: tuple[ProfileConfiguration, ...] = (ProfileConfiguration(),)
    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    lease: LeaseConfiguration = LeaseConfiguration()
    kubeconfig: str = ""
    without_effect: tuple[str, ...] = ()
    """Plugins that are named in the file and that this scheduler does not have."""


DEFAULT_CONFIGURATION: Final = SchedulerConfiguration()
"""The configuration without a file."""


def read_configuration(text: str | bytes) -> SchedulerConfiguration:
    """Return the configuration of a file (YAML or JSON).

    Raises:
        ConfigurationError: it is no such file, or something in it has no meaning here.
    """
    # Strictly: an unknown field would be a setting that its author believes to be in force.
    document = _with_name(_strictly(_read_value(text), Document))
    _check_durations(document.leader_election)
    given = [_arguments(one.plugin_config or [], position) for position, one in enumerate(document.profiles or ())]
    errors = document_errors(document)
    for position, arguments in enumerate(given):
        errors += _argument_errors(arguments, FieldPath("profiles").index(position).child("pluginConfig"))
    # All errors together, so that a file is not corrected one start at a time.
    if errors:
        raise ConfigurationError(_aggregated([str(error) for error in errors]))
    profiles = tuple(
        _profile(profile, document, {one.name: one.args for one in arguments})
        for profile, arguments in zip(document.profiles or (), given, strict=True)
    )
    if len({(profile.filter_timeout, profile.binding_timeout) for profile in profiles}) > 1:
        raise ConfigurationError(
            "profiles: DynamicResources has the same filterTimeout and bindingTimeout in all profiles, because they "
            "share what is allocated"
        )
    return SchedulerConfiguration(
        profiles=profiles,
        initial_backoff=float(document.pod_initial_backoff_seconds),
        max_backoff=float(document.pod_max_backoff_seconds),
        lease=_lease(document.leader_election),
        kubeconfig=document.client_connection.kubeconfig,
        without_effect=tuple(sorted(set(_without_effect(document)))),
    )


def _read_value(text: str | bytes) -> dict[str, Any]:
    """Return the content of a file, a mapping of the right version and kind."""
    try:
        read = read_yaml(text)
    except DecodeError as error:
        raise ConfigurationError(str(error)) from error
    if read.repeated:
        raise ConfigurationError(f"strict decoding error: yaml: unmarshal errors:\n  {read.repeated[0]}")
    value = read.value
    if not isinstance(value, dict):
        raise ConfigurationError(f"a scheduler configuration has apiVersion: {API_VERSION} and kind: {KIND}")
    if (value.get("apiVersion"), value.get("kind")) != (API_VERSION, KIND):
        raise ConfigurationError(
            f'no kind "{value.get("kind", "")}" is registered for version "{value.get("apiVersion", "")}": '
            f"the file must have apiVersion: {API_VERSION} and kind: {KIND}"
        )
    return value


def _aggregated(problems: Sequence[str]) -> str:
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def _check_durations(given: LeaderElection) -> None:
    for text in (given.lease_duration, given.renew_deadline, given.retry_period):
        if parse_duration(text) is None:
            raise ConfigurationError(f"time: invalid duration {go_quote(text)}")


def _with_name(document: Document) -> Document:
    """Return the document with at least one profile. If there is only one, it needs no name and gets the default."""
    profiles = document.profiles or [ProfileDocument()]
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        profiles = [msgspec.structs.replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER)]
    return msgspec.structs.replace(document, profiles=profiles)


def _strictly(value: Any, kind: type[T], *, wrong: str = "", unknown: str = "") -> T:
    """Decode ``value`` strictly. ``wrong`` and ``unknown`` are the beginnings of errors about values and about field
    names."""
    reader = Reader()
    try:
        # Kubernetes turns YAML into JSON first, with the keys of each mapping in order.
        plain = reader.read(parse(json.dumps(value, sort_keys=True)), go_type_of_file(kind))
    except DecodeError as error:
        raise ConfigurationError(f"{wrong}{error}") from error
    if reader.problems:
        raise ConfigurationError(f"strict decoding error: {unknown}{', '.join(reader.problems)}")
    return msgspec.convert(plain, kind)


def _profile(profile: ProfileDocument, document: Document, arguments: Mapping[str, Any]) -> ProfileConfiguration:
    name = profile.scheduler_name or DEFAULT_SCHEDULER
    try:
        plugins = enabled(profile.plugins or Plugins(), name)
    except EnablementError as error:
        raise ConfigurationError(
            f"initializing profiles: creating profile for scheduler name {name}: {error}"
        ) from error
    fit: FitArgs = arguments.get("NodeResourcesFit", FitArgs())
    dynamic: DynamicResourcesArgs = arguments.get("DynamicResources", DynamicResourcesArgs())
    percentage = profile.percentage_of_nodes_to_score
    # The profile's own value outranks that of the document. 0 in a profile is a value, so it is compared with None.
    if percentage is None:
        percentage = document.percentage_of_nodes_to_score
    affinity: InterPodAffinityArgs = arguments.get("InterPodAffinity", InterPodAffinityArgs())
    nodes: NodeAffinityArgs = arguments.get("NodeAffinity", NodeAffinityArgs())
    spread: SpreadArgs = arguments.get("PodTopologySpread", SpreadArgs())
    preemption: PreemptionArgs = arguments.get("DefaultPreemption", PreemptionArgs())
    device_scoring: DeviceScoringArgs = arguments.get("DeviceScoring", DeviceScoringArgs())
    joint: JointPlacementArgs = arguments.get("JointPlacement", JointPlacementArgs())
    return ProfileConfiguration(
        name=name,
        percentage_of_nodes_to_score=percentage or 0,
        plugins=plugins,
        scoring=fit_scoring(fit.scoring_strategy),
        ignored_resources=frozenset(fit.ignored_resources or ()),
        ignored_resource_groups=frozenset(fit.ignored_resource_groups or ()),
        filter_timeout=_seconds(dynamic.filter_timeout, FILTER_TIMEOUT),
        binding_timeout=_seconds(dynamic.binding_timeout, BINDING_TIMEOUT),
        hard_affinity_weight=affinity.hard_pod_affinity_weight,
        ignores_wishes_of_others=affinity.ignore_preferred_terms_of_existing_pods,
        added_affinity=nodes.added_affinity,
        default_constraints=None if spread.defaulting_type == "System" else tuple(spread.default_constraints or ()),
        candidate_percentage=preemption.min_candidate_nodes_percentage,
        joint_trials=joint.max_trials,
        device_strategy=device_scoring.strategy,
        spread_attribute=device_scoring.attribute,
        fewest_candidates=preemption.min_candidate_nodes_absolute,
    )


_ARGUMENTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "NodeResourcesFit": FitArgs,
    "DynamicResources": DynamicResourcesArgs,
    "NodeResourcesBalancedAllocation": BalancedAllocationArgs,
    "DefaultPreemption": PreemptionArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "JointPlacement": JointPlacementArgs,
    "DeviceScoring": DeviceScoringArgs,
    "NodeAffinity": NodeAffinityArgs,
    "PodTopologySpread": SpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}


def _is_default_balance(args: BalancedAllocationArgs) -> bool:
    return {(one.name, one.weight) for one in args.resources or ()} in (set(), {("cpu", 1), ("memory", 1)})


_ONLY_DEFAULTS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "NodeResourcesBalancedAllocation": _is_default_balance,
}
"""Plugins whose arguments this scheduler supports in their default form only."""


class _Arguments(msgspec.Struct, frozen=True):
    """The arguments of one plugin, as they stand in the file."""

    name: str
    args: Any


def _arguments(given: list[PluginConfig], profile: int) -> list[_Arguments]:
    return [_Arguments(one.name, _decoded(one, profile, position)) for position, one in enumerate(given)]


def _decoded(one: PluginConfig, profile: int, position: int) -> Any:
    # Arguments of unknown plugins are left undecoded; `_argument_errors` reports the plugin itself.
    kind = _ARGUMENTS.get(one.name)
    if kind is None:
        return None
    place = f"decoding .profiles[{profile}].pluginConfig[{position}]: "
    wanted, found = f"{one.name}Args", (one.args or {}).get("kind") or f"{one.name}Args"
    if found != wanted:
        group = API_VERSION.partition("/")[0]
        raise ConfigurationError(
            f"{place}args for plugin {one.name} were not of type {wanted}.{group}, got {found}.{group}"
        )
    wrong = f"decoding args for plugin {one.name}: "
    unknown = f"{place}strict decoding error: {wrong}strict decoding error: "
    args = _strictly(one.args or {}, kind, wrong=place + wrong, unknown=unknown)
    for field_name in ("filter_timeout", "binding_timeout"):
        text = getattr(args, field_name, None)
        if text is not None and parse_duration(text) is None:
            raise ConfigurationError(f"{place}{wrong}time: invalid duration {go_quote(text)}")
    return args


def _argument_errors(given: Sequence[_Arguments], path: FieldPath) -> ErrorList:
    errors = ErrorList()
    seen: set[str] = set()
    for position, one in enumerate(given):
        where = path.index(position)
        if one.name in seen:
            errors.duplicate(where, one.name)
        seen.add(one.name)
        if one.name not in KNOWN_PLUGINS:
            errors.invalid(where.child("name"), one.name, "plugin does not exist")
        elif one.name not in _ARGUMENTS:
            errors.forbidden(where.child("args"), f"{one.name} takes no arguments")
        elif wrong := argument_errors(one.args, where.child("args")):
            errors += wrong
        elif not _ONLY_DEFAULTS.get(one.name, _any)(one.args):
            message = f"this scheduler runs {one.name} with its default arguments only"
            errors.forbidden(where.child("args"), message)
    return errors


def _any(args: Any) -> bool:
    return True


def _seconds(text: str | None, default: float) -> float:
    duration = parse_duration(text) if text is not None else None
    return duration.nanos / 1e9 if duration is not None else default


def _lease(given: LeaderElection) -> LeaseConfiguration:
    return LeaseConfiguration(
        elect=given.leader_elect,
        name=given.resource_name,
        namespace=given.resource_namespace,
        duration=_seconds(given.lease_duration, 15),
        renew_deadline=_seconds(given.renew_deadline, 10),
        retry_period=_seconds(given.retry_period, 2),
    )


def _without_effect(document: Document) -> Iterator[str]:
    """Return the plugins whose arguments in the file have no effect."""
    for profile in document.profiles or ():
        for one in profile.plugin_config or ():
            if one.name == "VolumeBinding":
                yield one.name
