"""Quota usage of pods: their charge, the quotas whose scopes match them, and the amounts that they must state.

The sums are those of scheduling: containers together, or the largest step of initialisation, whichever is more. A pod
that is resized in place is charged the larger of its requests and the amounts that it still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cathedra.api.core.core_v1 import Container, Pod, ResourceQuota, ScopedResourceSelectorRequirement
from cathedra.api.formats import extended_resource_name
from cathedra.api.quantity import Quantity
from cathedra.semantics.podresources import (
    HUGE_PAGES,
    pod_held_limit_quantities,
    pod_held_quantities,
    reported_resources,
)
from cathedra.semantics.pods import is_terminal

COUNT_PODS: Final = "count/pods"
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
_CHECKED: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""Resources that every container must state once a quota limits them."""
_KNOWN: Final = frozenset(
    {COUNT_PODS, "pods", *_PLAIN, *(f"requests.{name}" for name in _PLAIN), *(f"limits.{name}" for name in _PLAIN)}
)
Amounts = Mapping[str, Quantity]


def pod_usage(pod: Pod, *, extended: bool) -> dict[str, Quantity]:
    """Return the charge of a pod: always as an object, and its resources until it has ended. ``extended`` adds the
    implicit extended resources of device classes."""
    one = Quantity.of_value(1)
    usage = {COUNT_PODS: one}
    if is_terminal(pod):
        return usage
    requests, limits = pod_held_quantities(pod), pod_held_limit_quantities(pod)
    return {**usage, "pods": one, **_charged(requests, limits, extended=extended)}


def is_charged_anew(old: Pod, new: Pod) -> bool:
    """Return True if the charge of a changed pod may decrease or move to other quotas: it was resized in place, or got
    a deadline."""
    return (
        # Reports of the kubelet count: a shrunk pod is charged less only when the kubelet has put the new size into
        # effect.
        reported_resources(old) != reported_resources(new)
        or _stated(old) != _stated(new)
        or (old.spec.active_deadline_seconds is None) is not (new.spec.active_deadline_seconds is None)
    )


def _stated(pod: Pod) -> tuple[object, ...]:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return (pod.spec.resources, *((one.resources.requests, one.resources.limits) for one in containers))


def tracked_pod_resources(names: Iterable[str], *, extended: bool) -> set[str]:
    """Return the resources of a quota that pods can be charged for."""
    found = set()
    for name in names:
        plain = name.removeprefix("requests.")
        if name in _KNOWN or plain.startswith(HUGE_PAGES) or (plain != name and _is_extended(plain, extended)):
            found.add(name)
    return found


def missing_resources(pod: Pod, required: Iterable[str]) -> str:
    """Return the containers without an amount that a quota requires: ``cpu for: c1,c2; memory for: c1``."""
    needed = _CHECKED & set(required)
    missing: dict[str, list[str]] = {}
    spec: Any = pod.spec
    for container in (*spec.containers, *spec.init_containers):
        stated = _charged(_amounts(container, "requests"), _amounts(container, "limits"), extended=True)
        for name in needed - stated.keys():
            missing.setdefault(name, []).append(container.name)
    return "; ".join(f"{name} for: {','.join(names)}" for name, names in sorted(missing.items()))


def pod_in_scopes(quota: ResourceQuota, pod: Pod) -> bool:
    """Return True if the quota's scopes hold the pod."""
    if not all(_in_scope(scope, pod) for scope in quota.spec.scopes):
        return False
    selector = quota.spec.scope_selector
    return selector is None or all(_selected(one, pod) for one in selector.match_expressions)


def _charged(requests: Amounts, limits: Amounts, *, extended: bool) -> dict[str, Quantity]:
    charged: dict[str, Quantity] = {}
    for name, amount in requests.items():
        if name in _PLAIN or name.startswith(HUGE_PAGES):
            charged[name] = amount
            charged[f"requests.{name}"] = amount
        elif _is_extended(name, extended):
            charged[f"requests.{name}"] = amount
    charged.update({f"limits.{name}": limits[name] for name in _PLAIN if name in limits})
    return charged


def _is_extended(name: str, extended: bool) -> bool:
    return extended_resource_name(name) or (extended and name.startswith(_IMPLICIT))


def _amounts(container: Container, which: str) -> Amounts:
    found: Amounts = getattr(container.resources, which)
    return found


def _in_scope(scope: str, pod: Pod) -> bool:
    spec: Any = pod.spec
    best_effort = not any(
        _checked(container.resources.requests) or _checked(container.resources.limits)
        for container in (*spec.containers, *spec.init_containers)
    )
    answers = {
        "Terminating": spec.active_deadline_seconds is not None,
        "NotTerminating": spec.active_deadline_seconds is None,
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "PriorityClass": bool(spec.priority_class_name),
        "CrossNamespacePodAffinity": _affinity_across(spec.affinity),
    }
    return answers.get(scope, False)


def _checked(amounts: Amounts) -> bool:
    return any(not amounts[name].is_zero() for name in ("cpu", "memory") if name in amounts)


def _selected(wanted: ScopedResourceSelectorRequirement, pod: Pod) -> bool:
    spec: Any = pod.spec
    if wanted.scope_name != "PriorityClass" or wanted.operator == "Exists":
        return _in_scope(wanted.scope_name, pod)
    if wanted.operator == "DoesNotExist":
        return not spec.priority_class_name
    if wanted.operator == "In":
        return spec.priority_class_name in wanted.values
    return wanted.operator == "NotIn" and spec.priority_class_name not in wanted.values


def _affinity_across(affinity: Any) -> bool:
    """Return True if the pod's affinity to other pods reaches beyond its own namespace."""
    for group in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
        if group is None:
            continue
        terms = [
            *group.required_during_scheduling_ignored_during_execution,
            *(w.pod_affinity_term for w in group.preferred_during_scheduling_ignored_during_execution),
        ]
        if any(term.namespaces or term.namespace_selector is not None for term in terms):
            return True
    return False
