"""Search for the node of one pod, by the preferences of its claims first.

With JointPlacement a search that treats preferred constraints as required comes before the one that Kubernetes makes.
It changes nothing but the choice: if it finds no node, the pod is tried as if it had no preferences, and the result and
the reasons of a refusal are those of that search. A pod without preferences is searched once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from cathedra.allocation import SearchAllowance
from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.framework.diagnosis import Diagnosis, UnschedulablePod
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.narrowing import Narrowing, Wish, preference_allowance, wishes_of, with_most_wishes
from cathedra.scheduler.nodesearch import NodeSearch, SelectedNode
from cathedra.scheduler.plugins.joint_placement import JointPlacement
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.groupdomains import AttributeValue

Outcome = SelectedNode | UnschedulablePod | Status
Found = tuple[Outcome, CycleState]
"""Outcome of a search, and the state of the plugins in it."""
ClaimsOf = Callable[[Pod], Sequence[ResourceClaim] | None]
"""Returns the claims of a pod; None if one of them cannot be used."""


class SearchScope(msgspec.Struct, frozen=True):
    """Bounds of the search for a pod that is placed with others."""

    nodes: frozenset[str] | None = None
    """Names of the nodes that it may use; None for all."""
    excluded: frozenset[str] = frozenset()
    """Nodes that are not tried, and are there nevertheless: plugins that compare nodes count them."""
    values: tuple[AttributeValue, ...] = ()
    """Values of attributes that its devices must have."""
    strict: bool = False
    """True if all preferences of its claims are required."""


_EVERYWHERE: Final = SearchScope()


class PodSearch:
    """Searches of one profile."""

    def __init__(
        self, profile: Profile, search: NodeSearch, claims: ClaimsOf, snapshot: Callable[[], Snapshot]
    ) -> None:
        """``snapshot`` returns the nodes of this moment: while others were tried, nodes and devices may have
        changed."""
        self._profile, self._search, self._claims, self._snapshot = profile, search, claims, snapshot
        self._prefers = any(isinstance(one, JointPlacement) for one in profile.plugins)

    def wishes(self, pod: Pod) -> tuple[Wish, ...]:
        """Return the preferred constraints of the pod's claims; none without JointPlacement."""
        if not self._prefers or not pod.spec.resource_claims:
            return ()
        return wishes_of(self._claims(pod) or ())

    def state(
        self, attempt: Attempt | None, group: dict[str, Any] | None, scope: SearchScope, narrowing: Narrowing | None
    ) -> CycleState:
        """Return the state of a search for claims that are narrowed."""
        snapshot = self._snapshot() if scope.nodes is None else self._snapshot().within(scope.nodes)
        return CycleState(snapshot, group, attempt, narrowing=narrowing)

    async def find(self, entry: QueuedPodInfo, attempt: Attempt, group: dict[str, Any] | None = None) -> Found:
        """Return the node of a pod. If there is none, plugins make room (PostFilter)."""
        if self._prefers and (preferred := await self._preferred(entry, attempt, group, _EVERYWHERE)) is not None:
            return preferred
        state = CycleState(self._snapshot(), group, attempt)
        pod = entry.info
        outcome = self._search.find(state, pod)
        if not isinstance(outcome, Diagnosis):
            return outcome, state
        if not outcome.nodes:
            return UnschedulablePod(outcome), state
        outcome.postfilter_message, nomination = await self._profile.post_filter(state, pod, outcome)
        return UnschedulablePod(outcome, nomination.node if nomination is not None else None), state

    async def find_within(
        self, entry: QueuedPodInfo, attempt: Attempt, group: dict[str, Any], scope: SearchScope
    ) -> Found:
        """Return the node of a pod of a group. PostFilter acts for the group as a whole, from 1.37 on."""
        narrowing = Narrowing(scope.values) if scope.values else None
        if scope.strict:
            wishes = self.wishes(entry.info.pod)
            narrowing = Narrowing(scope.values, wishes, preference_allowance() if wishes else None)
        else:
            preferred = await self._preferred(entry, attempt, group, scope)
            if preferred is not None:
                return preferred
        return self.searched(entry, self.state(attempt, group, scope, narrowing), scope.excluded)

    def searched(self, entry: QueuedPodInfo, state: CycleState, excluded: frozenset[str]) -> Found:
        """Return the outcome of one search, without PostFilter."""
        outcome = self._search.find(state, entry.info, excluded)
        return UnschedulablePod(outcome) if isinstance(outcome, Diagnosis) else outcome, state

    async def _preferred(
        self, entry: QueuedPodInfo, attempt: Attempt, group: dict[str, Any] | None, scope: SearchScope
    ) -> Found | None:
        async def search(wishes: tuple[Wish, ...], allowance: SearchAllowance) -> Found:
            narrowing = Narrowing(scope.values, wishes, allowance)
            return self.searched(entry, self.state(attempt, group, scope, narrowing), scope.excluded)

        return await with_most_wishes(self.wishes(entry.info.pod), search, _is_found)


def _is_found(found: tuple[Any, CycleState]) -> bool:
    return isinstance(found[0], SelectedNode)
