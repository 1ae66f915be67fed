"""From the text of a ``KubeSchedulerConfiguration`` to the profiles that the scheduler runs, or what is wrong with it.

Everything in the file either has its effect or is an error: an unknown field, a plugin that does not exist, and
arguments that this scheduler cannot honour (docs/spec/scheduling.md §17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.decoding import DecodeError, read_yaml
from cathedra.api.field import ErrorList, FieldPath
from cathedra.cel.library.times import parse_duration
from cathedra.scheduler.configuration.document import (
    BalancedAllocationArgs,
    Document,
    DynamicResourcesArgs,
    FitArgs,
    InterPodAffinityArgs,
    LeaderElection,
    NodeAffinityArgs,
    PluginConfig,
    Plugins,
    PreemptionArgs,
    ProfileDocument,
    SpreadArgs,
    VolumeBindingArgs,
)
from cathedra.scheduler.configuration.enablement import (
    ABSENT_PLUGINS,
    KNOWN_PLUGINS,
    Enablement,
    EnablementError,
    enabled,
)
from cathedra.scheduler.configuration.strategy import LEAST_ALLOCATED, FitScoring, fit_scoring

__all__ = [
    "DEFAULT_CONFIGURATION",
    "ConfigurationError",
    "LeaseConfiguration",
    "ProfileConfiguration",
    "SchedulerConfiguration",
    "read_configuration",
]

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
FILTER_TIMEOUT: Final = 10.0
BINDING_TIMEOUT: Final = 600.0

T = TypeVar("T", bound=msgspec.Struct)


class ConfigurationError(ValueError):
    """A scheduler configuration cannot be used; each line of the text is one reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileConfiguration:
    """One scheduler name with its plugins and their arguments."""

    name: str = "default-scheduler"
    percentage_of_nodes_to_score: int = 0
    """0: adapted to the size of the cluster."""
    plugins: Enablement = field(default_factory=lambda: enabled(Plugins()))
    scoring: FitScoring = LEAST_ALLOCATED
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    filter_timeout: float = FILTER_TIMEOUT
    """Seconds that the allocator may take for one node; 0 is no limit."""
    binding_timeout: float = BINDING_TIMEOUT
    """Seconds until devices' binding conditions must be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseConfiguration:
    """The lease of the working scheduler. Seconds."""

    elect: bool | None = None
    """None: the file does not say."""
    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfiguration:
    """Everything that can be chosen about a scheduler in its file."""

    profiles: tuple[ProfileConfiguration, ...] = (ProfileConfiguration(),)
    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    lease: LeaseConfiguration = LeaseConfiguration()
    kubeconfig: str = ""
    without_effect: tuple[str, ...] = ()
    """Plugins that are named in the file and that this scheduler does not have."""


DEFAULT_CONFIGURATION: Final = SchedulerConfiguration()
"""Without a file."""


def read_configuration(text: str | bytes) -> SchedulerConfiguration:
    """What a file (YAML or JSON) says.

    Raises:
        ConfigurationError: it is no such file, or something in it has no meaning here.
    """
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
    document = _strictly(value, Document, "")
    errors = ErrorList(_document_errors(document))
    if errors:
        raise ConfigurationError("\n".join(str(error) for error in errors))
    profiles = tuple(
        _profile(profile, document, f"profiles[{position}]")
        for position, profile in enumerate(document.profiles or [ProfileDocument()])
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
        without_effect=tuple(sorted(_absent(document))),
    )


def _strictly(value: Any, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        place = (where + place.rstrip("`")).lstrip(".")
        if text.startswith("Object contains unknown field"):
            name = text.split("`")[1]
            raise ConfigurationError(
                f'strict decoding error: unknown field "{f"{place}.{name}" if place else name}"'
            ) from error
        raise ConfigurationError(f"strict decoding error: {place}: {text}") from error


def _document_errors(document: Document) -> Iterator[Any]:
    errors = ErrorList()
    if document.parallelism <= 0:
        errors.invalid(FieldPath("parallelism"), document.parallelism, "should be an integer value greater than zero")
    _check_percentage(errors, FieldPath("percentageOfNodesToScore"), document.percentage_of_nodes_to_score)
    if document.pod_initial_backoff_seconds <= 0:
        errors.invalid(
            FieldPath("podInitialBackoffSeconds"), document.pod_initial_backoff_seconds, "must be greater than 0"
        )
    if document.pod_max_backoff_seconds < document.pod_initial_backoff_seconds:
        errors.invalid(
            FieldPath("podMaxBackoffSeconds"),
            document.pod_max_backoff_seconds,
            "must be greater than or equal to PodInitialBackoffSeconds",
        )
    if document.extenders:
        errors.forbidden(FieldPath("extenders"), "this scheduler has no extenders")
    if document.leader_election.resource_lock != "leases":
        errors.invalid(
            FieldPath("leaderElection.resourceLock"),
            document.leader_election.resource_lock,
            'resourceLock value must be "leases"',
        )
    seen: set[str] = set()
    for position, profile in enumerate(document.profiles or ()):
        path = FieldPath("profiles").index(position)
        if not profile.scheduler_name:
            errors.required(path.child("schedulerName"), "")
        elif profile.scheduler_name in seen:
            errors.duplicate(path.child("schedulerName"), profile.scheduler_name)
        seen.add(profile.scheduler_name)
        _check_percentage(errors, path.child("percentageOfNodesToScore"), profile.percentage_of_nodes_to_score)
    yield from errors


def _check_percentage(errors: ErrorList, path: FieldPath, value: int | None) -> None:
    if value is not None and not 0 <= value <= 100:
        errors.invalid(path, value, "not in valid range [0-100]")


def _profile(profile: ProfileDocument, document: Document, where: str) -> ProfileConfiguration:
    try:
        plugins = enabled(profile.plugins or Plugins(), profile.scheduler_name)
    except EnablementError as error:
        raise ConfigurationError(
            f"initializing profiles: creating profile for scheduler name {profile.scheduler_name}: {error}"
        ) from error
    arguments = dict(_arguments(profile.plugin_config or [], where))
    fit: FitArgs = arguments.get("NodeResourcesFit", FitArgs())
    dynamic: DynamicResourcesArgs = arguments.get("DynamicResources", DynamicResourcesArgs())
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = document.percentage_of_nodes_to_score
    try:
        scoring = fit_scoring(fit.scoring_strategy)
    except ValueError as error:
        raise ConfigurationError(f"{where}.pluginConfig: NodeResourcesFit: {error}") from error
    return ProfileConfiguration(
        name=profile.scheduler_name,
        percentage_of_nodes_to_score=percentage or 0,
        plugins=plugins,
        scoring=scoring,
        ignored_resources=frozenset(fit.ignored_resources or ()),
        ignored_resource_groups=frozenset(fit.ignored_resource_groups or ()),
        filter_timeout=_seconds(dynamic.filter_timeout, FILTER_TIMEOUT, f"{where}: filterTimeout"),
        binding_timeout=_seconds(dynamic.binding_timeout, BINDING_TIMEOUT, f"{where}: bindingTimeout"),
    )


_ARGUMENTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "NodeResourcesFit": FitArgs,
    "DynamicResources": DynamicResourcesArgs,
    "NodeResourcesBalancedAllocation": BalancedAllocationArgs,
    "DefaultPreemption": PreemptionArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "PodTopologySpread": SpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}


def _is_default_balance(args: BalancedAllocationArgs) -> bool:
    return {(one.name, one.weight) for one in args.resources or ()} in (set(), {("cpu", 1), ("memory", 1)})


_ONLY_DEFAULTS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "NodeResourcesBalancedAllocation": _is_default_balance,
    "DefaultPreemption": lambda args: msgspec.structs.replace(args, kind="") == PreemptionArgs(),
    "InterPodAffinity": lambda args: msgspec.structs.replace(args, kind="") == InterPodAffinityArgs(),
    "NodeAffinity": lambda args: args.added_affinity is None,
    "PodTopologySpread": lambda args: not args.default_constraints and args.defaulting_type == "System",
}
"""Plugins whose arguments this scheduler knows in their default form alone."""


def _arguments(given: list[PluginConfig], where: str) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for position, one in enumerate(given):
        path = f"{where}.pluginConfig[{position}]"
        if one.name in seen:
            raise ConfigurationError(f'{path}: Duplicate value: "{one.name}"')
        seen.add(one.name)
        if one.name not in KNOWN_PLUGINS:
            raise ConfigurationError(f'{path}.name: Invalid value: "{one.name}": plugin does not exist')
        kind = _ARGUMENTS.get(one.name)
        if kind is None:
            raise ConfigurationError(f"{path}.args: Forbidden: {one.name} takes no arguments")
        args = _strictly(one.args or {}, kind, f"{path}.args")
        if not _ONLY_DEFAULTS.get(one.name, _any)(args):
            raise ConfigurationError(
                f"{path}.args: Forbidden: this scheduler runs {one.name} with its default arguments only"
            )
        yield one.name, args


def _any(args: Any) -> bool:
    return True


def _seconds(text: str | None, default: float, where: str) -> float:
    if text is None:
        return default
    duration = parse_duration(text)
    if duration is None:
        raise ConfigurationError(f'{where}: Invalid value: "{text}": time: invalid duration')
    seconds = duration.nanos / 1e9
    if seconds < 0:
        raise ConfigurationError(f'{where}: Invalid value: "{text}": must be zero or greater')
    return seconds


def _lease(given: LeaderElection) -> LeaseConfiguration:
    duration = _seconds(given.lease_duration, 15, "leaderElection.leaseDuration")
    renew = _seconds(given.renew_deadline, 10, "leaderElection.renewDeadline")
    retry = _seconds(given.retry_period, 2, "leaderElection.retryPeriod")
    for name, value in (("leaseDuration", duration), ("renewDeadline", renew), ("retryPeriod", retry)):
        if value <= 0:
            raise ConfigurationError(f"leaderElection.{name}: Invalid value: must be greater than zero")
    if duration <= renew:
        raise ConfigurationError(
            "leaderElection.leaseDuration: Invalid value: LeaseDuration must be greater than RenewDeadline"
        )
    return LeaseConfiguration(
        elect=given.leader_elect,
        name=given.resource_name,
        namespace=given.resource_namespace,
        duration=duration,
        renew_deadline=renew,
        retry_period=retry,
    )


def _absent(document: Document) -> Iterator[str]:
    """Plugins that the file enables or configures, and that are not here."""
    found: set[str] = set()
    for profile in document.profiles or ():
        found |= {one.name for one in profile.plugin_config or ()}
        plugins = profile.plugins or Plugins()
        for point in plugins.__struct_fields__:
            found |= {ref.name for ref in getattr(plugins, point).enabled or ()}
    return iter(found & ABSENT_PLUGINS)
