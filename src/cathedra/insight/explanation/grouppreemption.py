"""Preemption for a gang: the pods that would be evicted so that all of it fits, by the rules of the scheduler.

All pods of lower priority are removed from their nodes, and the gang is placed. The pods are then put back one after
the other, the most important first, as long as the gang still fits. The others are the victims. Pods that can only be
disrupted together are put back together. The scheduler may choose other nodes by their scores, and then other victims
of equal importance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.policy_v1 import PodDisruptionBudget
from cathedra.api.resource import ResourceClaim
from cathedra.api.selectors import from_label_selector
from cathedra.api.struct import replace
from cathedra.insight.explanation.afterfilters import victims_text, with_priority
from cathedra.insight.explanation.gangs import GangFit, StateGroups, gang_fit, group_of
from cathedra.insight.explanation.report import Cause
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.rendering import names_text
from cathedra.printable import counted
from cathedra.semantics.podgroups import GroupKey, disrupted_as_one, group_key
from cathedra.semantics.pods import is_terminal

_MOST: Final = 100
"""Largest number of units that are put back one by one; each is a trial of the whole gang."""


class GangPreemption(msgspec.Struct, frozen=True):
    """The pods that are evicted for a gang, or the reason why none is."""

    victims: tuple[Pod, ...] = ()
    """The most important first."""
    together: tuple[str, ...] = ()
    """Groups that are evicted as a whole, as «PodGroup NAME»."""
    violations: int = 0
    """The number of victims that a disruption budget protects."""
    why: str = ""
    """In the scheduler's words."""


class _EvictionUnit(msgspec.Struct, frozen=True):
    """Pods that are evicted together."""

    pods: tuple[Pod, ...]
    group: GroupKey | None = None

    def importance(self) -> tuple[int, bool, float]:
        """Sort key: the most important unit first; among equal ones groups come before single pods."""
        first = min(_started(pod) for pod in self.pods)
        return -max(pod.spec.priority or 0 for pod in self.pods), self.group is None, first


def preemption_for_gang(pod: Pod, state: ClusterState) -> GangPreemption | None:
    """Return the victims for the gang of a pod that does not fit; None if that cannot be tried."""
    if pod.spec.preemption_policy == "Never":
        return GangPreemption(why="not eligible due to preemptionPolicy=Never.")
    units = _units(state, pod.spec.priority or 0)
    if not units:
        return GangPreemption(why="No preemption victims found for incoming pod group.")
    if len(units) > _MOST:
        return None
    gone = {one.metadata.uid: one for unit in units for one in unit.pods}
    found = gang_fit(pod, _without(gone, state))
    if found is None:
        return None
    if not found.fits:
        return GangPreemption(why="evicting all pods of lower priority would not make the pod group fit.")
    protected = _protected(gone.values(), state)
    victims: list[_EvictionUnit] = []
    # As the scheduler: units under a disruption budget are put back first, so that it is violated only if it must be.
    for unit in sorted(units, key=lambda unit: not any(one.metadata.uid in protected for one in unit.pods)):
        rest = {uid: one for uid, one in gone.items() if one not in unit.pods}
        trial = _kept(pod, unit, found, rest, state)
        if trial is None:
            victims.append(unit)
        else:
            found, gone = trial, rest
    ordered = sorted(victims, key=_EvictionUnit.importance)
    return GangPreemption(
        tuple(one for unit in ordered for one in unit.pods),
        tuple(f"{unit.group.kind} {unit.group.name}" for unit in ordered if unit.group is not None),
        sum(one.metadata.uid in protected for unit in victims for one in unit.pods),
    )


def gang_preemption_causes(pod: Pod, state: ClusterState) -> Iterator[Cause]:
    """Yield the pods that the scheduler would evict for a gang, or the reason why it evicts none (gate
    DRAPreemption)."""
    found = preemption_for_gang(with_priority(pod, state), state)
    if found is None:
        return
    if not found.victims:
        yield Cause("preemption", f"preemption for the whole group evicts no pod: {found.why}")
        return
    whole = f"; {names_text(found.together)} as a whole (disruptionMode all)" if found.together else ""
    against = f", against the disruption budget of {counted(found.violations, 'pod')}" if found.violations else ""
    text = f"preemption for the whole group evicts {victims_text(found.victims)}{whole}{against}"
    yield Cause("preemption", text)


def _kept(
    pod: Pod, unit: _EvictionUnit, found: GangFit, gone: Mapping[str, Pod], state: ClusterState
) -> GangFit | None:
    """Return how the gang fits if a unit stays; None if it does not."""
    # A unit away from the chosen nodes does not compete with the gang.
    if not {one.spec.node_name for one in unit.pods} & found.nodes:
        return found
    trial = gang_fit(pod, _without(gone, state))
    return trial if trial is not None and trial.fits else None


def _units(state: ClusterState, priority: int) -> list[_EvictionUnit]:
    """Return the units that pods of a priority may evict, the most important first."""
    groups = StateGroups(state)
    together: dict[GroupKey, list[Pod]] = {}
    units: list[_EvictionUnit] = []
    for pod in state.pods:
        if not pod.spec.node_name or is_terminal(pod):
            continue
        group = disrupted_as_one(group_of(pod, state), groups)
        if group is not None:
            together.setdefault(group_key(group), []).append(pod)
        elif (pod.spec.priority or 0) < priority:
            units.append(_EvictionUnit((pod,)))
    for key, members in together.items():
        if all((one.spec.priority or 0) < priority for one in members):
            units.append(_EvictionUnit(tuple(members), key))
    return sorted(units, key=_EvictionUnit.importance)


def _without(gone: Mapping[str, Pod], state: ClusterState) -> ClusterState:
    """Return the state without some pods, and without the allocations of claims that only they use."""
    return state.without(gone.values()).including(_freed(gone, state))


def _freed(gone: Mapping[str, Pod], state: ClusterState) -> Iterator[ResourceClaim]:
    for claim in state.all(ResourceClaim):
        left = tuple(one for one in claim.status.reserved_for if one.uid not in gone)
        if len(left) < len(claim.status.reserved_for):
            allocation = claim.status.allocation if left else None
            yield replace(claim, status=replace(claim.status, reserved_for=left, allocation=allocation))


def _protected(pods: Iterable[Pod], state: ClusterState) -> frozenset[str]:
    """Return the UIDs of the pods whose eviction would violate a disruption budget, if all of them were evicted."""
    ordered: Sequence[Pod] = sorted(pods, key=lambda pod: (-(pod.spec.priority or 0), _started(pod)))
    found: set[str] = set()
    for budget in state.all(PodDisruptionBudget):
        if budget.spec.selector is None:
            continue
        selector, left = from_label_selector(budget.spec.selector), budget.status.disruptions_allowed
        for pod in ordered:
            same = pod.metadata.namespace == budget.metadata.namespace
            if same and pod.metadata.labels and selector.matches(pod.metadata.labels):
                left -= 1
                if left < 0:
                    found.add(pod.metadata.uid)
    return frozenset(found)


def _started(pod: Pod) -> float:
    return pod.status.start_time.timestamp if pod.status.start_time is not None else float("inf")
