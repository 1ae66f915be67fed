"""Proposals to free claims of others: to delete their pods, or to scale down the workloads of these.

A pod that is deleted while its controller wants it comes back and takes its devices again. Therefore pods with a
controller are not proposed to be deleted, but the controller's workload to be changed; what no command can end for good
is not proposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cathedra.allocation import Allocator, PreparedRequests
from cathedra.api.core.apps_v1 import (
    Deployment,
    DeploymentStrategy,
    ReplicaSet,
    RollingUpdateDeployment,
    StatefulSet,
)
from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Node, Pod, ReplicationController
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import replace
from cathedra.controllers.podcontrol import surplus_first
from cathedra.controllers.workloads.templates import limits
from cathedra.insight.explanation import commands
from cathedra.insight.explanation.analysis import Analysis
from cathedra.insight.explanation.candidates import Candidate
from cathedra.insight.explanation.report import Edit
from cathedra.insight.reading.state import ClusterState
from cathedra.printable import counted
from cathedra.semantics.owners import controller_of
from cathedra.semantics.pods import is_active, is_terminal

ROLLOUT: Final = "change rollout"
"""Kind of the remedy for a rollout that waits for the devices of its own old pods."""
_TAKEN: Final = 24
"""Claims of one node that are proposed to be freed."""
_COST: Final = 25
"""Rank of ending one pod. Each further pod adds one, so that the change that ends the fewest comes first."""
_ONE_BY_ONE: Final = 16
"""Replicas by which a workload is proposed to be scaled down one by one; then the number doubles."""
_SCALED: Final = (ReplicaSet, StatefulSet, ReplicationController)
_OWNERS: Final[Mapping[str, type[KubeObject]]] = {
    one.__name__: one for one in (Deployment, ReplicaSet, StatefulSet, ReplicationController, Job)
}


def freed_candidates(analysis: Analysis, allocator: Allocator, holders: Holders) -> Iterator[Candidate]:
    """Yield the proposals to free claims that hold devices of the nearest nodes."""
    known = {one.metadata.uid: one for one in analysis.state.all(ResourceClaim)}
    seen: set[str] = set()
    proposed: set[str] = set()
    for node in analysis.representatives[:8]:
        for uid in holders.held_on(node, analysis.prepared, allocator)[:_TAKEN]:
            claim = known.get(uid)
            if claim is None or uid in seen:
                continue
            seen.add(uid)
            for candidate in holders.proposals(claim):
                # The claims of one workload are freed by the same changes.
                if candidate.text not in proposed:
                    proposed.add(candidate.text)
                    yield candidate


def pools_in_reach(prepared: PreparedRequests | None, node: Node) -> Iterator[tuple[str, str]]:
    """Return driver and name of the pools that a node can use."""
    if prepared is None:
        return
    inventory = prepared.allocator.inventory
    pools = dict.fromkeys(record.pool for record in inventory.bound.get(node.metadata.name, ()))
    pools.update(dict.fromkeys(record.pool for record in inventory.unbound if record.target.matches(node)))
    yield from pools


def top_workload(pod: Pod, state: ClusterState) -> KubeObject | None:
    """Return the workload that decides how many such pods there are; None if there is none in the state."""
    owner = controller_of(pod)
    kind = _OWNERS.get(owner.kind) if owner is not None else None
    found = state.get(kind, owner.name, pod.metadata.namespace) if kind is not None and owner is not None else None
    if isinstance(found, ReplicaSet):
        above = controller_of(found)
        deployment = state.get(Deployment, above.name, pod.metadata.namespace) if above is not None else None
        return deployment if above is not None else found
    return found


class Holders:
    """The consumers of claims, and how to end them; ``mine`` is the pod for which devices are wanted."""

    def __init__(self, state: ClusterState, mine: Pod | None) -> None:
        self._state, self._mine = state, mine
        self._own = top_workload(mine, state) if mine is not None else None
        self._pods = {pod.metadata.uid: pod for pod in state.pods if pod.metadata.uid}
        self._claims: dict[str, list[ResourceClaim]] = {}
        self._by_controller: dict[str, list[Pod]] = {}
        for claim in state.all(ResourceClaim):
            for one in claim.status.reserved_for:
                self._claims.setdefault(one.uid, []).append(claim)
        for pod in state.pods:
            owner = controller_of(pod)
            if owner is not None:
                self._by_controller.setdefault(owner.uid, []).append(pod)

    def held_on(self, node: Node, prepared: PreparedRequests | None, allocator: Allocator) -> Sequence[str]:
        """Return the UIDs of the claims with devices that the node can use, those with most devices first."""
        held: dict[str, int] = {}
        for pool in pools_in_reach(prepared, node):
            for holdings in allocator.ledger.pool(pool).holdings.values():
                for holding in holdings:
                    held[holding.uid] = held.get(holding.uid, 0) + 1
        # Freeing the claim with most devices helps most often. The UID makes the order stable.
        return sorted(held, key=lambda uid: (-held[uid], uid))

    def proposals(self, claim: ResourceClaim, *, whole: bool = False) -> Iterator[Candidate]:
        """Yield the proposals to free a claim; ``whole``: only those that end all pods of a workload."""
        users = claim.status.reserved_for
        if any(one.resource != "pods" for one in users):
            return
        pods = [self._pods[one.uid] for one in users if one.uid in self._pods]
        if self._mine is not None and any(pod.metadata.uid == self._mine.metadata.uid for pod in pods):
            return
        workloads = {id(one): one for one in (top_workload(pod, self._state) for pod in pods) if one is not None}
        controlled = [pod for pod in pods if controller_of(pod) is not None]
        if not controlled:
            yield self._deletion(claim, pods)
            return
        if len(workloads) != 1 or len(controlled) < len(pods):
            return
        (workload,) = workloads.values()
        if workload is self._own:
            if isinstance(workload, Deployment) and not whole:
                yield from self._rollout(workload)
            return
        if isinstance(workload, Job):
            yield self._suspension(workload)
            return
        yield from self._scalings(workload, whole=whole)

    def _deletion(self, claim: ResourceClaim, pods: Sequence[Pod]) -> Candidate:
        where = f"{claim.metadata.namespace}/{claim.metadata.name}"
        names = [one.name for one in claim.status.reserved_for]
        used = f"used by pod {', '.join(names[:2])}{' …' if len(names) > 2 else ''}" if names else "used by no pod"
        # A pod that was not read is known by its name alone.
        namespace = claim.metadata.namespace
        ended = [f"kubectl -n {namespace} delete pod {' '.join(names)}"] if names else [commands.deleted(claim)]
        return Candidate(
            "free claim",
            _COST + len(names) - 1 if names else 5,
            f"free claim {where} ({used})",
            (Edit(f"claim {where}", "status.allocation", "allocated", None),),
            free=self._freed(pods) or (claim,),
            removed=tuple(pods),
            commands=tuple(ended),
            target=f"free {where}",
        )

    def _freed(self, pods: Sequence[Pod]) -> tuple[ResourceClaim, ...]:
        """Return the claims that no pod but these uses."""
        uids = {pod.metadata.uid for pod in pods}
        found = {claim.metadata.uid: claim for uid in uids for claim in self._claims.get(uid, ())}
        return tuple(
            claim
            for claim in found.values()
            if claim.status.allocation is not None and all(one.uid in uids for one in claim.status.reserved_for)
        )

    def _suspension(self, job: Job) -> Candidate:
        where = f"job {job.metadata.namespace}/{job.metadata.name}"
        pods = [pod for pod in self._by_controller.get(job.metadata.uid, ()) if not is_terminal(pod)]
        return Candidate(
            "suspend job",
            _COST + len(pods),
            f"suspend {where}, which deletes its {counted(len(pods), 'pod')}",
            (Edit(where, "spec.suspend", bool(job.spec.suspend), True),),
            free=self._freed(pods),
            removed=tuple(pods),
            changed=(replace(job, spec=replace(job.spec, suspend=True)),),
            commands=(commands.suspended(job),),
            target=where,
        )

    def _scalings(self, workload: Any, *, whole: bool) -> Iterator[Candidate]:
        if not isinstance(workload, (Deployment, *_SCALED)):
            return
        pods = list(self._all_of(workload))
        replicas = 1 if workload.spec.replicas is None else workload.spec.replicas
        where = f"{type(workload).__name__.lower()} {workload.metadata.namespace}/{workload.metadata.name}"
        for fewer in (replicas,) if whole else _reductions(replicas):
            left = replicas - fewer
            gone = self._surplus(workload, pods)[: max(len(pods) - left, 0)]
            if not gone:
                continue
            yield Candidate(
                "scale down",
                _COST + len(gone),
                f"scale {where} down from {replicas} to {left}, which ends {counted(len(gone), 'pod')}",
                (Edit(where, "spec.replicas", replicas, left),),
                free=self._freed(gone),
                removed=tuple(gone),
                changed=(replace(workload, spec=replace(workload.spec, replicas=left)),),
                commands=(commands.scaled(workload, left),),
                target=where,
            )

    def _all_of(self, workload: KubeObject) -> Iterator[Pod]:
        uids = [workload.metadata.uid]
        if isinstance(workload, Deployment):
            uids = [one.metadata.uid for one in self._sets_of(workload)]
        for uid in uids:
            yield from (pod for pod in self._by_controller.get(uid, ()) if is_active(pod))

    def _sets_of(self, deployment: Deployment) -> list[ReplicaSet]:
        return [
            one
            for one in self._state.all(ReplicaSet)
            if (owner := controller_of(one)) is not None and owner.uid == deployment.metadata.uid
        ]

    def _surplus(self, workload: KubeObject, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Return the pods in the order in which the workload's controller deletes them."""
        if isinstance(workload, StatefulSet):
            return sorted(pods, key=lambda pod: -_ordinal(pod.metadata.name))
        return surplus_first(pods, pods, self._state.now or 0.0)

    def _rollout(self, deployment: Deployment) -> Iterator[Candidate]:
        """Yield the proposal to let old pods go first, for a deployment that may not have fewer pods for a while."""
        assert self._mine is not None, "a deployment is the subject's own only if there is a subject"
        strategy, owner = deployment.spec.strategy, controller_of(self._mine)
        if strategy.type == "Recreate" or owner is None:
            return
        rolling = strategy.rolling_update
        replicas = 1 if deployment.spec.replicas is None else deployment.spec.replicas
        given = (rolling.max_surge, rolling.max_unavailable) if rolling is not None else (None, None)
        if limits(replicas, *given)[1] > 0:
            return
        old = [pod for one in self._sets_of(deployment) if one.metadata.uid != owner.uid for pod in self._pods_of(one)]
        if not old:
            return
        gone = surplus_first(old, old, self._state.now or 0.0)[:1]
        where = f"deployment {deployment.metadata.namespace}/{deployment.metadata.name}"
        made = RollingUpdateDeployment(max_surge=0, max_unavailable=1)
        changed = replace(
            deployment,
            spec=replace(deployment.spec, strategy=DeploymentStrategy(type="RollingUpdate", rolling_update=made)),
        )
        yield Candidate(
            ROLLOUT,
            2,
            f"set maxSurge 0 and maxUnavailable 1 in the strategy of {where}, so that old pods go before new ones come",
            (Edit(where, "spec.strategy.rollingUpdate", given, (0, 1)),),
            free=self._freed(gone),
            removed=tuple(gone),
            changed=(changed,),
            commands=(commands.patched(deployment, changed, self._state.gates),),
            target=where,
        )

    def _pods_of(self, one: ReplicaSet) -> Iterator[Pod]:
        return (pod for pod in self._by_controller.get(one.metadata.uid, ()) if is_active(pod))


def _reductions(replicas: int) -> Iterator[int]:
    """Yield the numbers of replicas to remove, the fewest first, and all of them last."""
    fewer = 1
    while fewer < replicas:
        yield fewer
        fewer = fewer + 1 if fewer < _ONE_BY_ONE else fewer * 2
    yield replicas


def _ordinal(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
