"""Execution of a plan of moves on a cluster, step by step, as long as the cluster is as the plan assumes.

Only this module of the tools writes, and only if it is called. Before each eviction the pod to be evicted must still be
the one of the plan, the devices that it would get must not have been taken, and the pods that need the room must still
wait. After it the pod must run elsewhere. Otherwise execution stops. Nodes that were cordoned for the plan are
uncordoned in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta, Preconditions
from cathedra.api.core.policy_v1 import Eviction
from cathedra.api.resource import ResourceClaim
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.resources import NODES, PODS, RESOURCECLAIMS
from cathedra.client.store import Store
from cathedra.client.transport import PatchType
from cathedra.clock import Clock
from cathedra.insight.moving.report import MovePlan, MoveStep
from cathedra.insight.reading.state import ClusterState
from cathedra.semantics.owners import controller_of

PATIENCE: Final = 120.0
"""Default number of seconds that a pod has to run elsewhere."""


class PlanStopped(Exception):
    """The cluster differs from what the plan assumes; no further step was taken."""


async def carry_out(
    plan: MovePlan,
    state: ClusterState,
    client: Client,
    *,
    clock: Clock,
    report: Callable[[str], None],
    patience: float = PATIENCE,
) -> None:
    """Take the steps of a plan that was made from ``state``, and wait until its pods have nodes.

    Raises:
        PlanStopped: the cluster differs from what the plan assumes, or a pod finds no node.
        StatusError: the API server refuses a write.
    """
    refuse_unsafe(plan)
    pods, claims = Informer(client, PODS, clock=clock), Informer(client, RESOURCECLAIMS, clock=clock)
    execution = _Execution(plan, state, client, _World(pods.store, claims.store), report, patience)
    pods.add_handler(execution.note, execution.note, execution.note)
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(pods.run()), group.create_task(claims.run())]
        try:
            await pods.wait_synced()
            await claims.wait_synced()
            await execution.run()
        finally:
            for task in following:
                task.cancel()


def refuse_unsafe(plan: MovePlan) -> None:
    """Refuse a plan whose steps no controller completes.

    Raises:
        PlanStopped: no simulation proved it, or it deletes pods that only their user can create again, or frees claims.
    """
    if plan.proved is not True:
        raise PlanStopped("the plan is not proved by a simulation")
    for step in plan.steps:
        if step.action in ("recreate", "free"):
            raise PlanStopped(f"step «{step.text}» is yours to take: no controller does it; run its command")


class _World(NamedTuple):
    """The cluster as it is now."""

    pods: Store[Pod]
    claims: Store[ResourceClaim]


class _Execution:
    def __init__(
        self,
        plan: MovePlan,
        state: ClusterState,
        client: Client,
        now: _World,
        report: Callable[[str], None],
        patience: float,
    ) -> None:
        self._plan, self._state, self._client = plan, state, client
        self._pods, self._claims = now.pods, now.claims
        self._report, self._patience = report, patience
        self._changed = asyncio.Event()
        self._cordoned: list[str] = []

    def note(self, *_: object) -> None:
        self._changed.set()

    async def run(self) -> None:
        try:
            for step in self._plan.steps:
                self._report(step.text)
                await self._take(step)
        finally:
            for node in self._cordoned:
                self._report(f"uncordon {node}")
                await self._set_cordon(node, False)
        for one in self._plan.placed:
            await self._wait(partial(self._has_node, one.pod), f"pod {one.pod} has no node")
            self._report(f"pod {one.pod} has node {self._node_of(one.pod)}")

    async def _take(self, step: MoveStep) -> None:
        if step.action == "cordon":
            await self._cordon(step.subject)
        elif step.action == "evict":
            await self._evict(step)
        elif step.subject in self._cordoned:
            await self._set_cordon(step.subject, False)
            self._cordoned.remove(step.subject)

    async def _cordon(self, name: str) -> None:
        node: Node = await self._client.resource(NODES).get(name)
        # A node that was cordoned before stays cordoned.
        if not node.spec.unschedulable:
            self._cordoned.append(name)
            await self._set_cordon(name, True)

    async def _set_cordon(self, name: str, cordoned: bool) -> None:
        await self._client.resource(NODES).patch(name, PatchType.MERGE, {"spec": {"unschedulable": cordoned}})

    async def _evict(self, step: MoveStep) -> None:
        namespace, name = step.subject.split("/", 1)
        planned = self._state.get(Pod, name, namespace)
        now = self._pods.get(namespace, name)
        if planned is None or now is None or now.metadata.uid != planned.metadata.uid:
            raise PlanStopped(f"pod {step.subject} is not the one of the plan any more")
        if now.spec.node_name != planned.spec.node_name:
            raise PlanStopped(f"pod {step.subject} runs on {now.spec.node_name}, not on {planned.spec.node_name}")
        self._check_wanted()
        self._check_place(step.subject)
        before = {one.metadata.uid for one in self._successors(now)}
        options = DeleteOptions(preconditions=Preconditions(uid=now.metadata.uid))
        eviction = Eviction(metadata=ObjectMeta(name=name, namespace=namespace), delete_options=options)
        try:
            await self._client.resource(PODS, namespace).create_subresource(name, "eviction", eviction)
        except StatusError as error:
            raise PlanStopped(f"pod {step.subject} cannot be evicted: {error}") from error
        if not step.waits:
            return
        move = next((one for one in self._plan.moves if one.pod == step.subject), None)
        if move is None or not move.to:
            await self._wait(lambda: not self._is_there(now), f"pod {step.subject} does not end")
            return
        await self._wait(
            lambda: any(one.metadata.uid not in before and one.spec.node_name for one in self._successors(now)),
            f"the pod that replaces {step.subject} has no node",
        )

    def _check_wanted(self) -> None:
        """Refuse to go on if nothing needs the room any more."""
        nodes: list[str] = []
        for one in self._plan.placed:
            namespace, name = one.pod.split("/", 1)
            planned, now = self._state.get(Pod, name, namespace), self._pods.get(namespace, name)
            if now is None or (planned is not None and planned.metadata.uid != now.metadata.uid):
                raise PlanStopped(f"pod {one.pod}, which needs the room, is gone")
            nodes.append(now.spec.node_name)
        # With several, one may have its node as soon as its part of the room is made.
        if nodes and all(nodes):
            raise PlanStopped(f"pod {self._plan.placed[0].pod} has a node already: {nodes[0]}")

    def _check_place(self, name: str) -> None:
        """Refuse to evict a pod whose devices in the plan have been taken by a pod that is no part of it."""
        wanted = {
            device for move in self._plan.moves if move.pod == name for held in move.devices.values() for device in held
        }
        moved = [self._state.get(Pod, *reversed(move.pod.split("/", 1))) for move in self._plan.moves]
        owners = {owner.uid for pod in moved if pod is not None and (owner := controller_of(pod)) is not None}
        for claim in self._claims.list():
            before = self._state.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)
            if before is not None and before.metadata.uid == claim.metadata.uid and _devices(before) == _devices(claim):
                continue
            # The scheduler may choose other devices for the pods of the plan than the plan does.
            if taken := wanted & _devices(claim):
                users = [self._pods.get(claim.metadata.namespace, one.name) for one in claim.status.reserved_for]
                known = (controller_of(pod) for pod in users if pod is not None)
                if not any(owner is not None and owner.uid in owners for owner in known):
                    holder = f"{claim.metadata.namespace}/{claim.metadata.name}"
                    raise PlanStopped(
                        f"device {min(taken)}, which the plan has for {name}, is in use by claim {holder}"
                    )

    def _successors(self, pod: Pod) -> Sequence[Pod]:
        """Return the pods of the same controller."""
        owner = controller_of(pod)
        return [
            one
            for one in self._pods.list()
            if owner is not None and (other := controller_of(one)) is not None and other.uid == owner.uid
        ]

    def _is_there(self, pod: Pod) -> bool:
        now = self._pods.get(pod.metadata.namespace, pod.metadata.name)
        return now is not None and now.metadata.uid == pod.metadata.uid

    def _node_of(self, name: str) -> str:
        found = self._pods.get(*name.split("/", 1))
        return found.spec.node_name if found is not None else ""

    def _has_node(self, name: str) -> bool:
        return bool(self._node_of(name))

    async def _wait(self, done: Callable[[], bool], failure: str) -> None:
        try:
            async with asyncio.timeout(self._patience):
                while not done():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError as error:
            raise PlanStopped(f"{failure} after {self._patience:g} s") from error


def _devices(claim: ResourceClaim) -> set[str]:
    """Return the devices that a claim holds, as «driver/pool/device»."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return {f"{one.driver}/{one.pool}/{one.device}" for one in results}
