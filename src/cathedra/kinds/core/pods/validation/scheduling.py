"""Rules of what a pod says to the scheduler: tolerations, gates, affinity, spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.kinds.nodeselectors import validate_node_selector

__all__ = ["validate_affinity", "validate_gates", "validate_spread", "validate_tolerations"]

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WHEN: Final = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION: Final = ("Honor", "Ignore")


def validate_tolerations(errors: ErrorList, path: FieldPath, tolerations: Sequence[core_v1.Toleration]) -> None:
    """Key, operator, value and effect agree with one another."""
    for position, toleration in enumerate(tolerations):
        where = path.index(position)
        if toleration.key:
            check(errors, where.child("key"), toleration.key, formats.label_key)
        elif toleration.operator != "Exists":
            errors.invalid(
                where.child("operator"),
                toleration.operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.invalid(where.child("effect"), toleration.effect, text)
        _operator(errors, where.child("operator"), toleration)
        if toleration.effect and toleration.effect not in _EFFECTS:
            errors.not_among(where.child("effect"), toleration.effect, _EFFECTS)


def _operator(errors: ErrorList, path: FieldPath, toleration: core_v1.Toleration) -> None:
    if toleration.operator in {"", "Equal"}:
        problems = formats.label_value(toleration.value)
        if problems:
            errors.invalid(path, toleration.value, ";".join(problems))
    elif toleration.operator == "Exists":
        if toleration.value:
            errors.invalid(path, toleration, "value must be empty when `operator` is 'Exists'")
    else:
        errors.not_supported(path, toleration.operator, ("Equal", "Exists"))


def validate_gates(errors: ErrorList, path: FieldPath, gates: Sequence[core_v1.PodSchedulingGate]) -> None:
    """Gates have names of their own."""
    seen: set[str] = set()
    for position, gate in enumerate(gates):
        where = path.index(position)
        check(errors, where, gate.name, formats.qualified_name)
        if gate.name in seen:
            errors.duplicate(where, gate.name)
        seen.add(gate.name)


def validate_affinity(errors: ErrorList, path: FieldPath, affinity: core_v1.Affinity | None) -> None:
    """Node selectors are well-formed, weights lie between 1 and 100."""
    if affinity is None:
        return
    node = affinity.node_affinity
    if node is not None:
        where = path.child("nodeAffinity")
        required = node.required_during_scheduling_ignored_during_execution
        if required is not None:
            validate_node_selector(errors, where.child("requiredDuringSchedulingIgnoredDuringExecution"), required)
        preferred = node.preferred_during_scheduling_ignored_during_execution
        _weights(errors, where, [term.weight for term in preferred])
    for name, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pods is None:
            continue
        where = path.child(name)
        for position, term in enumerate(pods.required_during_scheduling_ignored_during_execution):
            place = where.child("requiredDuringSchedulingIgnoredDuringExecution").index(position)
            _topology(errors, place, term)
        weighted = pods.preferred_during_scheduling_ignored_during_execution
        _weights(errors, where, [term.weight for term in weighted])
        for position, one in enumerate(weighted):
            place = where.child("preferredDuringSchedulingIgnoredDuringExecution").index(position)
            _topology(errors, place.child("podAffinityTerm"), one.pod_affinity_term)


def _weights(errors: ErrorList, path: FieldPath, weights: Sequence[int]) -> None:
    for position, weight in enumerate(weights):
        if not 1 <= weight <= 100:
            where = path.child("preferredDuringSchedulingIgnoredDuringExecution").index(position).child("weight")
            errors.invalid(where, weight, "must be in the range 1-100")


def _topology(errors: ErrorList, path: FieldPath, term: core_v1.PodAffinityTerm) -> None:
    if not term.topology_key:
        errors.required(path.child("topologyKey"), "can not be empty")
    else:
        check(errors, path.child("topologyKey"), term.topology_key, formats.label_key)


def validate_spread(
    errors: ErrorList, path: FieldPath, constraints: Sequence[core_v1.TopologySpreadConstraint]
) -> None:
    """Skews are positive, every key and manner of a constraint occurs once."""
    seen: set[tuple[str, str]] = set()
    for position, constraint in enumerate(constraints):
        where = path.index(position)
        if constraint.max_skew <= 0:
            errors.invalid(where.child("maxSkew"), constraint.max_skew, "must be greater than zero")
        if not constraint.topology_key:
            errors.required(where.child("topologyKey"), "can not be empty")
        else:
            check(errors, where.child("topologyKey"), constraint.topology_key, formats.label_key)
        if constraint.when_unsatisfiable not in _WHEN:
            errors.not_supported(where.child("whenUnsatisfiable"), constraint.when_unsatisfiable, _WHEN)
        for name, policy in (
            ("nodeAffinityPolicy", constraint.node_affinity_policy),
            ("nodeTaintsPolicy", constraint.node_taints_policy),
        ):
            if policy is not None and policy not in _INCLUSION:
                errors.not_supported(where.child(name), policy, _INCLUSION)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            errors.duplicate(where.child("{topologyKey, whenUnsatisfiable}"), f"{{{pair[0]}, {pair[1]}}}")
        seen.add(pair)
