"""Devices of a node for all pods of a gang together (JointPlacement).

The first suitable devices of a pod may be those that a later pod of its gang needs: a whole GPU although half of it
would suffice for each. If a pod is refused on a node on which pods of its gang are held, the allocator is therefore
given the claims of all of them, as if they were the claims of one pod. It is exhaustive, so alternatives of prioritized
lists, partitions, shared counters and consumable capacity are all tried. Only claims whose pods are all on that node
change their devices.

A pod is packed in the same way (DeviceScoring): its own claims get devices that leave larger ones free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cathedra.allocation import Allocation, AllocationError, SearchAllowance
from cathedra.allocation.packing import packed
from cathedra.api.resource import AllocationResult, ResourceClaim
from cathedra.api.struct import encode, replace
from cathedra.scheduler.dynamicresources.cycle import ClaimCycle, FoundAllocations, GroupClaims, Repacking
from cathedra.scheduler.dynamicresources.devices import FreeDevices
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.framework.plugin import TOGETHER, CycleState
from cathedra.scheduler.narrowing import Narrowing
from cathedra.scheduler.state.node_info import NodeInfo


class Repacker:
    """Finds other devices for the pods of a gang on a node, and changes their decisions."""

    def __init__(self, devices: FreeDevices) -> None:
        self._devices = devices

    def fits(self, cycle: ClaimCycle, resources: frozenset[str], node: NodeInfo) -> bool:
        """Return True if the claims of the pod fit on ``node`` once others of its gang change their devices.

        Raises:
            LongSearch: the turn of the attempt is over.
        """
        group, name = cycle.group, node.name
        others = _movable(group, name) if group is not None else ()
        if not others:
            return False
        own = list(cycle.unallocated)
        if resources and cycle.demand is not None:
            own.append(cycle.demand.claim(resources))
        own = list(cycle.narrowed(own))
        claims = [*_narrowed(group, name, others), *own]
        if _are_alike(claims) and self._devices.are_plain(name):
            return False
        found = self._allocate(claims, others, node, cycle.allowance)
        if found is None and not cycle.is_optional:
            # Preferences of the other pods are given up, but not before every search with one of this pod has failed.
            forms = _narrowed(group, name, others, preferring=False)
            found = self._allocate([*forms, *own], others, node, cycle.allowance)
        if found is None:
            return False
        repacking = Repacking(list(zip(others, found, strict=False)), found[len(others) :])
        cycle.repackings[name] = repacking
        cycle.results[name] = FoundAllocations(lambda: repacking.own, resources)
        return True

    def apply(self, cycle: ClaimCycle, node: str) -> None:
        """Change the decisions of other pods on ``node`` as `fits` has found, before the pod takes its devices."""
        repacking = cycle.repackings.get(node)
        if repacking is not None and cycle.group is not None:
            self._decide(cycle.group, node, repacking.others)
            for claim, allocation in repacking.others:
                if claim.metadata.uid in cycle.shared:
                    cycle.shared[claim.metadata.uid] = allocation

    def pack(self, cycle: ClaimCycle, node: NodeInfo) -> None:
        """Replace the devices that were just chosen for the pod on ``node`` by devices that leave larger ones free."""
        claims = [claim for claim in cycle.unallocated if claim.metadata.uid not in cycle.shared]
        # A joint search has chosen devices for several pods, of which this is one.
        if not claims or node.name in cycle.repackings or self._devices.are_plain(node.name):
            return
        try:
            found = packed(self._devices.prepare_anew(cycle.narrowed(claims), claims, None), node.node)
        # The present devices of the pod are good enough.
        except AllocationError:
            return
        for claim, allocation in zip(claims, found.results, strict=True) if found is not None else ():
            uid = claim.metadata.uid
            self._devices.retake(claim, allocation)
            cycle.chosen[uid] = allocation
            if cycle.group is not None:
                cycle.group.decided[uid] = allocation

    def leave(self, cycle: ClaimCycle, node: str, state: CycleState) -> None:
        """Forget the pod on ``node``. While the gang is searched, those that stay get their first choice again."""
        group = cycle.group
        if group is None or node not in group.held:
            return
        group.held[node] = [other for other in group.held[node] if other is not cycle]
        if not group.held[node]:
            del group.held[node]
        # After the search the decisions of the others are being written.
        elif state.group is not None and TOGETHER in state.group and node in cycle.repackings:
            others, info = _movable(group, node), state.snapshot.by_name[node]
            forms = (_narrowed(group, node, others, preferring=prefers) for prefers in (True, False))
            found = next((one for form in forms if others and (one := self._allocate(form, others, info, None))), None)
            # Searched and not restored: a pod of another group may hold their former devices by now.
            if found is not None:
                self._decide(group, node, list(zip(others, found, strict=True)))

    def _allocate(
        self,
        claims: Sequence[ResourceClaim],
        decided: Sequence[ResourceClaim],
        node: NodeInfo,
        attempt: Attempt | SearchAllowance | None,
    ) -> tuple[AllocationResult, ...] | None:
        try:
            answer = self._devices.prepare_anew(claims, decided, attempt).on(node.node)
            return answer.results if isinstance(answer, Allocation) else None
        # Errors in the claims of one pod were reported when it was tried alone.
        except AllocationError:
            return None

    def _decide(
        self, group: GroupClaims, node: str, decisions: Sequence[tuple[ResourceClaim, AllocationResult]]
    ) -> None:
        for claim, allocation in decisions:
            uid = claim.metadata.uid
            self._devices.retake(claim, allocation)
            if uid in group.decided:
                group.decided[uid] = allocation
            for holder in group.held[node]:
                if uid in holder.chosen:
                    holder.chosen[uid] = allocation


def _narrowed(
    group: GroupClaims | None, node: str, claims: Sequence[ResourceClaim], *, preferring: bool = True
) -> list[ResourceClaim]:
    """Return claims of pods on ``node`` as they were searched, ``preferring`` with their preferred constraints."""
    found: dict[str, Narrowing] = {}
    for holder in group.held.get(node, ()) if group is not None else ():
        if holder.narrowing is not None:
            narrowing = holder.narrowing if preferring else holder.narrowing.required()
            found.update((uid, narrowing) for uid in holder.chosen)
    return [found[uid].claim(claim) if (uid := claim.metadata.uid) in found else claim for claim in claims]


def _are_alike(claims: Sequence[ResourceClaim]) -> bool:
    """Return True if all claims have the same demands on each device. Where devices do not depend on each other either,
    it does not matter which claim has which of them, and a refusal is final."""
    forms: set[bytes] = set()
    for claim in claims:
        if claim.spec.devices.constraints:
            return False
        for request in claim.spec.devices.requests or ():
            exact = request.exactly
            if exact is None or exact.capacity is not None or exact.admin_access:
                return False
            forms.add(encode(replace(exact, count=0, allocation_mode="")))
    return len(forms) == 1


def _movable(group: GroupClaims, node: str) -> list[ResourceClaim]:
    """Return the claims that are decided for pods of the group on ``node`` and used by none on another node."""
    elsewhere = {uid for name, holders in group.held.items() if name != node for uid in _chosen(holders)}
    found = {
        claim.metadata.uid: claim
        for holder in group.held.get(node, ())
        for claim in holder.all_claims
        if claim.metadata.uid in holder.chosen and claim.metadata.uid not in elsewhere
    }
    return list(found.values())


def _chosen(holders: Sequence[ClaimCycle]) -> Iterator[str]:
    for holder in holders:
        yield from holder.chosen
