"""Validation of a scheduler's configuration, with kube-scheduler's messages.

Source: ``pkg/scheduler/apis/config/validation`` (validation.go, validation_pluginargs.go), component-base
``config/validation``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cathedra.api.core.core_v1 import TopologySpreadConstraint
from cathedra.api.field import OMITTED, ErrorList, ErrorType, FieldError, FieldPath
from cathedra.api.formats import check, label_key
from cathedra.cel.library.times import parse_duration
from cathedra.scheduler.configuration.document import (
    BalancedAllocationArgs,
    DeviceScoringArgs,
    Document,
    DynamicResourcesArgs,
    FitArgs,
    InterPodAffinityArgs,
    JointPlacementArgs,
    LeaderElection,
    PreemptionArgs,
    ResourceWeight,
    SpreadArgs,
    UtilizationPoint,
    VolumeBindingArgs,
)

_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_DEVICE_STRATEGIES: Final = ("BestFit", "LeastAllocated", "LeastFragmentation", "MostAllocated", "Spread")
_POSITIVE: Final = "must be greater than zero"


def document_errors(document: Document) -> ErrorList:
    """Return all errors outside the arguments of plugins."""
    errors = ErrorList()
    if document.client_connection.burst < 0:
        errors.invalid("clientConnection.burst", document.client_connection.burst, "must be non-negative")
    # Absent means true: kube-scheduler elects a leader unless that is switched off.
    if document.leader_election.leader_elect is not False:
        _check_leader_election(errors, document.leader_election)
    if document.parallelism <= 0:
        errors.invalid("parallelism", document.parallelism, "should be an integer value greater than zero")
    seen: set[str] = set()
    for position, profile in enumerate(document.profiles or ()):
        path = FieldPath("profiles").index(position)
        name = profile.scheduler_name
        if not name:
            errors.required(path.child("schedulerName"))
        elif name in seen:
            errors.duplicate(path.child("schedulerName"), name)
        seen.add(name or "")
        _check_percentage(errors, path.child("percentageOfNodesToScore"), profile.percentage_of_nodes_to_score)
    _check_percentage(errors, FieldPath("percentageOfNodesToScore"), document.percentage_of_nodes_to_score)
    initial, longest = document.pod_initial_backoff_seconds, document.pod_max_backoff_seconds
    if initial <= 0:
        errors.invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        errors.invalid("podMaxBackoffSeconds", longest, "must be greater than or equal to PodInitialBackoffSeconds")
    if document.extenders:
        errors.forbidden("extenders", "this scheduler has no extenders")
    return errors


def _check_percentage(errors: ErrorList, path: FieldPath, value: int | None) -> None:
    if value is not None and not 0 <= value <= 100:
        errors.invalid(path, value, "not in valid range [0-100]")


def _check_leader_election(errors: ErrorList, given: LeaderElection) -> None:
    path = FieldPath("leaderElection")
    times = {"leaseDuration": given.lease_duration, "renewDeadline": given.renew_deadline}
    for name, text in {**times, "retryPeriod": given.retry_period}.items():
        if _seconds(text) <= 0:
            _invalid_duration(errors, path.child(name), text, _POSITIVE)
    if _seconds(given.lease_duration) <= _seconds(given.renew_deadline):
        message = "LeaseDuration must be greater than RenewDeadline"
        # kube-scheduler shows the other duration here, and the path of this one.
        _invalid_duration(errors, path.child("leaseDuration"), given.renew_deadline, message)
    for name, value in (("resourceNamespace", given.resource_namespace), ("resourceName", given.resource_name)):
        if not value:
            errors.required(path.child(name), f"{name} is required")
    if given.resource_lock != "leases":
        errors.invalid(path.child("resourceLock"), given.resource_lock, 'resourceLock value must be "leases"')


def _seconds(text: str) -> float:
    """Of a duration in Go's form; one that is none was refused before."""
    duration = parse_duration(text)
    return duration.nanos / 1e9 if duration is not None else 0.0


def _invalid_duration(errors: ErrorList, path: str, text: str, message: str) -> None:
    # Go shows durations without quotation marks.
    errors.append(FieldError(ErrorType.INVALID, path, OMITTED, f"{text}: {message}"))


def argument_errors(args: Any, path: FieldPath) -> ErrorList:
    """Return all errors in the arguments of a plugin, which are at ``path``."""
    errors = ErrorList()
    validate = _VALIDATE.get(type(args))
    if validate is not None:
        validate(errors, path, args)
    return errors


def _fit(errors: ErrorList, path: FieldPath, args: FitArgs) -> None:
    for position, name in enumerate(args.ignored_resources or ()):
        check(errors, path.child("ignoredResources").index(position), name, label_key)
    for position, group in enumerate(args.ignored_resource_groups or ()):
        where = path.child("ignoredResourceGroups").index(position)
        if "/" in group:
            errors.invalid(where, group, "resource group name can't contain '/'")
        check(errors, where, group, label_key)
    strategy, where = args.scoring_strategy, path.child("scoringStrategy")
    if strategy is None:
        return
    if strategy.type not in _STRATEGIES:
        errors.not_supported(where.child("type"), strategy.type, _STRATEGIES)
    _check_weights(errors, where.child("resources"), strategy.resources or ())
    ratio = strategy.requested_to_capacity_ratio
    if ratio is not None or strategy.type == "RequestedToCapacityRatio":
        _check_shape(errors, where.child("shape"), (ratio.shape if ratio is not None else None) or ())


def _check_weights(errors: ErrorList, path: FieldPath, resources: Sequence[ResourceWeight]) -> None:
    for position, one in enumerate(resources):
        if not 1 <= one.weight <= 100:
            message = f"resource weight of {one.name} not in valid range (0, 100]"
            errors.invalid(path.index(position).child("weight"), one.weight, message)


def _check_shape(errors: ErrorList, path: FieldPath, shape: Sequence[UtilizationPoint]) -> None:
    if not shape:
        errors.required(path, "at least one point must be specified")
    for position in range(1, len(shape)):
        at = shape[position].utilization
        if shape[position - 1].utilization >= at:
            where = path.index(position).child("utilization")
            errors.invalid(where, at, "values must be sorted in increasing order")
            # Only the first disorder is reported: every later point may follow from it.
            break
    for position, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            errors.invalid(path.index(position).child("utilization"), point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= 10:
            errors.invalid(path.index(position).child("score"), point.score, "not in valid range [0, 10]")


def _dynamic_resources(errors: ErrorList, path: FieldPath, args: DynamicResourcesArgs) -> None:
    if args.filter_timeout is not None and _seconds(args.filter_timeout) < 0:
        _invalid_duration(errors, path.child("filterTimeout"), args.filter_timeout, "must be zero or positive")
    if args.binding_timeout is not None and _seconds(args.binding_timeout) < 1:
        _invalid_duration(errors, path.child("bindingTimeout"), args.binding_timeout, "must be at least 1 second")


def _balance(errors: ErrorList, path: FieldPath, args: BalancedAllocationArgs) -> None:
    seen: set[str] = set()
    for position, one in enumerate(args.resources or ()):
        where = path.child("resources").index(position)
        if one.name in seen:
            errors.duplicate(where.child("name"), one.name)
        seen.add(one.name)
        if one.weight != 1:
            errors.invalid(where.child("weight"), one.weight, "must be 1")


def _preemption(errors: ErrorList, path: FieldPath, args: PreemptionArgs) -> None:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    shares, numbers = path.child("minCandidateNodesPercentage"), path.child("minCandidateNodesAbsolute")
    if not 0 <= percentage <= 100:
        errors.invalid(shares, percentage, "not in valid range [0, 100]")
    if absolute < 0:
        errors.invalid(numbers, absolute, "not in valid range [0, inf)")
    # With both at zero no node would be a candidate, and preemption could never happen.
    if percentage == absolute == 0:
        errors.invalid(shares, percentage, "cannot be zero at the same time as minCandidateNodesAbsolute")
        errors.invalid(numbers, absolute, "cannot be zero at the same time as minCandidateNodesPercentage")


def _interpod_affinity(errors: ErrorList, path: FieldPath, args: InterPodAffinityArgs) -> None:
    weight = args.hard_pod_affinity_weight
    if not 0 <= weight <= 100:
        errors.invalid(path.child("hardPodAffinityWeight"), weight, "not in valid range [0, 100]")


def _spreading(errors: ErrorList, path: FieldPath, args: SpreadArgs) -> None:
    where = path.child("defaultingType")
    if args.defaulting_type not in ("System", "List"):
        errors.not_supported(where, args.defaulting_type, ("System", "List"))
    elif args.defaulting_type == "System" and args.default_constraints:
        errors.invalid(where, args.defaulting_type, "when .defaultConstraints are not empty")
    seen: set[tuple[str, str]] = set()
    for position, one in enumerate(args.default_constraints or ()):
        place = path.child("defaultConstraints").index(position)
        _check_constraint(errors, place, one)
        pair = (one.topology_key, one.when_unsatisfiable)
        if pair in seen:
            errors.duplicate(place, f"{{{pair[0]}, {pair[1]}}}")
        seen.add(pair)


def _check_constraint(errors: ErrorList, path: FieldPath, constraint: TopologySpreadConstraint) -> None:
    skew, key, when = constraint.max_skew, constraint.topology_key, constraint.when_unsatisfiable
    if skew <= 0:
        errors.invalid(path.child("maxSkew"), skew, "not in valid range (0, inf)")
    if not key:
        errors.required(path.child("topologyKey"), "can not be empty")
    else:
        check(errors, path.child("topologyKey"), key, label_key)
    if not when:
        errors.required(path.child("whenUnsatisfiable"), "can not be empty")
    elif when not in ("DoNotSchedule", "ScheduleAnyway"):
        errors.not_supported(path.child("whenUnsatisfiable"), when, ("DoNotSchedule", "ScheduleAnyway"))
    if constraint.label_selector is not None:
        message = "constraint must not define a selector, as they deduced for each pod"
        errors.forbidden(path.child("labelSelector"), message)


def _volume_binding(errors: ErrorList, path: FieldPath, args: VolumeBindingArgs) -> None:
    if args.bind_timeout_seconds < 0:
        message = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.invalid(path.child("bindTimeoutSeconds"), args.bind_timeout_seconds, message)


def _device_scoring(errors: ErrorList, path: FieldPath, args: DeviceScoringArgs) -> None:
    if args.strategy not in _DEVICE_STRATEGIES:
        errors.not_supported(path.child("strategy"), args.strategy, _DEVICE_STRATEGIES)
    if args.strategy == "Spread" and not args.attribute.rpartition("/")[0]:
        message = "must be an attribute of devices with its domain, such as gpu.example.com/fabric"
        errors.invalid(path.child("attribute"), args.attribute, message)
    if args.strategy != "Spread" and args.attribute:
        errors.forbidden(path.child("attribute"), "may only be set with the strategy Spread")


def _joint_placement(errors: ErrorList, path: FieldPath, args: JointPlacementArgs) -> None:
    if not 1 <= args.max_trials <= 100_000:
        errors.invalid(path.child("maxTrials"), args.max_trials, "not in valid range [1, 100000]")


_VALIDATE: Final[Mapping[type[Any], Callable[[ErrorList, FieldPath, Any], None]]] = {
    FitArgs: _fit,
    DynamicResourcesArgs: _dynamic_resources,
    BalancedAllocationArgs: _balance,
    PreemptionArgs: _preemption,
    InterPodAffinityArgs: _interpod_affinity,
    JointPlacementArgs: _joint_placement,
    DeviceScoringArgs: _device_scoring,
    SpreadArgs: _spreading,
    VolumeBindingArgs: _volume_binding,
}
