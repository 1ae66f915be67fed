"""Plans of moves: search, steps in an order that works, and their proof by a simulation.

An evicted pod could go back to the node that it was evicted from. Such nodes are therefore cordoned until a pod is to
enter them, or until all moves are done. The scheduler may still choose other nodes than the plan; the simulation runs
the real one.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from cathedra.allocation.reading import Input
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import NODES, PODS, RESOURCECLAIMS
from cathedra.client.transport import PatchType
from cathedra.insight.moving.descent import first_moves
from cathedra.insight.moving.domains import GangDomains
from cathedra.insight.moving.movable import Movables, Unit, lifted, movables
from cathedra.insight.moving.report import Move, MovePlan, MoveStep
from cathedra.insight.moving.search import DEFAULT_OPTIONS, MoveOptions, MoveSolution, fewest_moves
from cathedra.insight.moving.wanted import Wanted, wanted_pods
from cathedra.insight.moving.world import World
from cathedra.insight.reading.state import ClusterState, read_kind
from cathedra.insight.simulation.copying import complete
from cathedra.insight.simulation.report import PodPlacement, Simulation
from cathedra.insight.simulation.run import simulate_steps
from cathedra.semantics.owners import controller_of

Step = Callable[[Client], Awaitable[None]]


def plan_moves(
    state: ClusterState,
    subjects: Sequence[str] = (),
    *,
    namespace: str = "default",
    manifests: Input = None,
    count: int = 1,
    options: MoveOptions = DEFAULT_OPTIONS,
) -> MovePlan:
    """Return the fewest moves with which pods fit: «pod/NAME», «claim/NAME», workloads, or those of ``manifests``.

    Must not be called from a running event loop if the plan is to be proved.

    Raises:
        InvalidInput: there is no such object, it does not wait, or the manifests are invalid.
    """
    whole = complete(state)
    wanted = wanted_pods(whole, subjects, namespace=namespace, manifests=manifests, count=count)
    return plan_for(wanted, whole, options, prove=options.prove)[0]


def plan_for(
    wanted: Wanted, state: ClusterState, options: MoveOptions, *, prove: bool, settled: Iterable[str] = ()
) -> tuple[MovePlan, MoveSolution | None]:
    """Return the fewest moves with which the wanted pods fit into ``state``, and the state that they lead to.

    ``state`` is complete. The pods whose UIDs are ``settled`` stay where they are.
    """
    priority = min(pod.spec.priority or 0 for pod in wanted.pods)
    known = movables(wanted.state, priority, [*settled, *(pod.metadata.uid for pod in wanted.pods)])
    found = fewest_moves(known, wanted.pods, options)
    if found.solution is None and not found.complete:
        found = structs.replace(found, solution=first_moves(known, wanted.pods, options.moves))
    plan = MovePlan(
        wanted.name,
        "no moves found",
        complete=found.complete,
        trials=found.trials,
        most=options.moves,
        staying=known.staying,
        notes=(*wanted.notes, *state.notes),
    )
    if found.solution is None:
        return plan, None
    moves = tuple(_moves(found.solution, known))
    placed = tuple(_placement(pod, found.solution.world) for pod in wanted.pods)
    plan = structs.replace(plan, verdict="fits after moves" if moves else "fits", moves=moves, placed=placed)
    if not moves:
        return plan, found.solution
    units = _in_order(found.solution, known)
    plan = structs.replace(plan, steps=tuple(_steps(units, wanted.pods, found.solution)))
    return _proved(plan, wanted, state, units, found.solution) if prove else plan, found.solution


# --- moves and steps


def _moves(solution: MoveSolution, known: Movables) -> Iterator[Move]:
    gone = {pod.metadata.uid for pod in solution.evicted}
    for unit in solution.moved:
        for pod in unit.pods:
            now = solution.world.state.get(Pod, pod.metadata.name, pod.metadata.namespace)
            before = _devices(pod, World(known.state, solution.world.layout))
            after = _devices(now or pod, solution.world)
            home = pod.spec.node_name or _home(before, known.state)
            yield Move(
                f"{pod.metadata.namespace}/{pod.metadata.name}",
                tuple(before),
                home,
                "" if pod.metadata.uid in gone or now is None else now.spec.node_name,
                before,
                {} if pod.metadata.uid in gone else after,
                controller_of(pod) is None and not unit.is_orphan,
            )


def _home(devices: dict[str, tuple[str, ...]], state: ClusterState) -> str:
    """Return the node of devices, for claims without a consumer; the pool's name for devices of no single node."""
    pools = {name.split("/", 1)[1].rpartition("/")[0] for held in devices.values() for name in held}
    for piece in state.all(ResourceSlice):
        if piece.spec.pool.name in pools and piece.spec.node_name:
            return piece.spec.node_name
    return next(iter(pools), "")


def _devices(pod: Pod, world: World) -> dict[str, tuple[str, ...]]:
    return {
        f"{claim.metadata.namespace}/{claim.metadata.name}": tuple(
            f"{one.driver}/{one.pool}/{one.device}" for one in claim.status.allocation.devices.results
        )
        for claim in world.claims_of(pod)
        if claim.status.allocation is not None
    }


def _placement(pod: Pod, world: World) -> PodPlacement:
    now = world.state.get(Pod, pod.metadata.name, pod.metadata.namespace) or pod
    return PodPlacement(f"{pod.metadata.namespace}/{pod.metadata.name}", now.spec.node_name, _devices(now, world))


def _in_order(solution: MoveSolution, known: Movables) -> list[Unit]:
    """Return the units in an order in which each has its place free when it is evicted, as far as there is one."""
    waiting, ordered = list(solution.moved), []
    world = World(known.state, solution.world.layout)
    gone = {pod.metadata.uid for pod in solution.evicted}
    while waiting:
        ready = next((unit for unit in waiting if _goes(unit, world, solution, gone)), waiting[0])
        waiting.remove(ready)
        ordered.append(ready)
        final = [solution.world.state.get(Pod, pod.metadata.name, pod.metadata.namespace) for pod in ready.pods]
        claims = [
            solution.world.state.get(ResourceClaim, one.metadata.name, one.metadata.namespace) for one in ready.claims
        ]
        world = world.after([ready]).including([one for one in (*final, *claims) if one is not None])
    return ordered


def _goes(unit: Unit, world: World, solution: MoveSolution, gone: set[str]) -> bool:
    """Return True if all pods of a unit fit on their new nodes while the others are where they are now."""
    trial = World(lifted([unit], world.state), world.layout)
    for pod in unit.pods:
        if pod.metadata.uid in gone:
            continue
        node = _node_after(pod, solution)
        if not node:
            return False
        found = trial.on(node, pod)
        placement = found.placement(node) if node in found.nodes else None
        if placement is None:
            return False
        trial = trial.including(placement)
    return True


def _schedule(units: Sequence[Unit], wanted: Sequence[Pod], solution: MoveSolution) -> Iterator[tuple[str, str | Unit]]:
    """Yield «cordon» and «uncordon» with nodes, and «move» with units, in their order.

    A node is cordoned before the first pod leaves it, and uncordoned before one enters it, or at the end. If several
    pods wait, nodes that have room for one of them already are cordoned first, because a moved pod could take it.
    """
    moved = [pod for unit in units for pod in unit.pods]
    touched = {node for pod in moved for node in (pod.spec.node_name, _node_after(pod, solution))}
    filled = dict.fromkeys(_node_after(pod, solution) for pod in wanted) if len(wanted) > 1 else ()
    cordoned = [node for node in filled if node not in touched]
    for node in cordoned:
        yield "cordon", node
    for unit in units:
        entered = {_node_after(pod, solution) for pod in unit.pods}
        for node in [one for one in cordoned if one in entered]:
            cordoned.remove(node)
            yield "uncordon", node
        for node in dict.fromkeys(pod.spec.node_name for pod in unit.pods):
            if node and node not in entered and node not in cordoned:
                cordoned.append(node)
                yield "cordon", node
        yield "move", unit
    for node in cordoned:
        yield "uncordon", node


def _node_after(pod: Pod, solution: MoveSolution) -> str:
    now = solution.world.state.get(Pod, pod.metadata.name, pod.metadata.namespace)
    return now.spec.node_name if now is not None else ""


def _steps(units: Sequence[Unit], wanted: Sequence[Pod], solution: MoveSolution) -> Iterator[MoveStep]:
    for action, what in _schedule(units, wanted, solution):
        if isinstance(what, Unit):
            yield from _unit_steps(what, solution)
        elif action == "cordon":
            left = any(pod.spec.node_name == what for unit in units for pod in unit.pods)
            why = "no evicted pod comes back" if left else "its room is left for the pods that wait"
            text = f"cordon {what}, so that {why}"
            yield MoveStep("cordon", what, text, f"kubectl cordon {what}")
        else:
            yield MoveStep("uncordon", what, f"uncordon {what}", f"kubectl uncordon {what}")


def _unit_steps(unit: Unit, solution: MoveSolution) -> Iterator[MoveStep]:
    if not unit.is_orphan:
        together = _moves_together(unit, solution)
        yield from (_step(pod, solution, waits=not together or pod is unit.pods[-1]) for pod in unit.pods)
        return
    for claim in unit.claims:
        where = f"{claim.metadata.namespace}/{claim.metadata.name}"
        patch = shlex.quote('[{"op":"remove","path":"/status/allocation"}]')
        command = (
            f"kubectl -n {claim.metadata.namespace} patch resourceclaim {claim.metadata.name} --subresource=status "
            f"--type=json -p {patch}"
        )
        yield MoveStep("free", where, f"free claim {where}, which no pod uses", command)


def _moves_together(unit: Unit, solution: MoveSolution) -> bool:
    """Return True if all pods of a unit have to be evicted before one is replaced.

    The scheduler would place a new pod in the domain of those of its gang that still run.
    """
    return unit.is_gang and GangDomains(solution.world.state).constrains(unit.pods[0])


def _step(pod: Pod, solution: MoveSolution, *, waits: bool) -> MoveStep:
    namespace, name = pod.metadata.namespace, pod.metadata.name
    where = f"{namespace}/{name}"
    gone = any(one.metadata.uid == pod.metadata.uid for one in solution.evicted)
    to = "" if gone else f" and wait until it runs, as on {_node_after(pod, solution)}"
    if not waits:
        to = ", and go on at once: its gang moves together"
    if controller_of(pod) is None and not gone:
        patch = shlex.quote('[{"op":"remove","path":"/spec/nodeName"}]')
        command = (
            f"kubectl -n {namespace} get pod {name} -o json "
            f"| kubectl patch --local -f - --type=json -p {patch} -o json | kubectl replace --force -f -"
        )
        return MoveStep("recreate", where, f"delete pod {where}, create it again{to}", command, waits)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    command = (
        f"echo {shlex.quote(json.dumps(body, separators=(',', ':')))} "
        f"| kubectl create --raw /api/v1/namespaces/{namespace}/pods/{name}/eviction -f -"
    )
    return MoveStep("evict", where, f"evict pod {where}{to}", command, waits)


# --- proof


def _proved(
    plan: MovePlan, wanted: Wanted, state: ClusterState, units: Sequence[Unit], solution: MoveSolution
) -> MovePlan:
    """Return the plan with the result of a simulation of its steps."""
    steps: list[Step] = [partial(_create, one) for one in wanted.created]
    gone = {pod.metadata.uid for pod in solution.evicted}
    for action, what in _schedule(units, wanted.pods, solution):
        if isinstance(what, str):
            steps.append(partial(_set_cordon, what, action == "cordon"))
        elif what.is_orphan:
            steps += [partial(_free, claim) for claim in what.claims]
        else:
            parts = [what.pods] if _moves_together(what, solution) else [(pod,) for pod in what.pods]
            for pods in parts:
                steps.append(partial(_evict, pods))
                bare = [pod for pod in pods if controller_of(pod) is None and pod.metadata.uid not in gone]
                if bare:
                    steps.append(partial(_create_all, [_fresh(pod) for pod in bare]))
    try:
        why = _shortfall(simulate_steps(state, steps), wanted, units, gone)
    except StatusError as error:
        why = f"the API server refuses a step: {error}"
    text = f"a simulation of these steps ends otherwise: {why}" if why else ""
    return structs.replace(plan, proved=not why, proof=text)


def _shortfall(found: Simulation, wanted: Wanted, units: Iterable[Unit], gone: set[str]) -> str:
    """Return what a simulation does not end with; "" if all pods have nodes that are to have them."""
    accepted = {
        f"{pod.metadata.namespace}/{pod.metadata.name}"
        for unit in units
        for pod in unit.pods
        if pod.metadata.uid in gone
    }
    mine = {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in wanted.pods}
    missing = sorted(mine - {one.pod for one in found.placed})
    if missing:
        return f"{missing[0]} has no node"
    # Pods that waited before are not part of the question. Evicted pods come back under new names.
    waiting = [name for group in found.pending if not group.before for name in group.pods]
    if len(waiting) > len(accepted):
        return f"{waiting[0]} has no node"
    return ""


def _fresh(pod: Pod) -> Pod:
    metadata = replace(pod.metadata, uid="", resource_version="", owner_references=())
    return Pod(metadata=metadata, spec=replace(pod.spec, node_name=""))


async def _create(one: KubeObject, client: Client) -> None:
    ref: Any = read_kind(type(one)).ref
    metadata = replace(one.metadata, uid="", resource_version="")
    fresh: Any = replace(one, metadata=metadata)
    if isinstance(fresh, Pod):
        # Admission computes the priority of the class, and refuses another one.
        fresh = replace(fresh, spec=replace(fresh.spec, priority=None))
    await client.resource(ref, metadata.namespace if ref.namespaced else "").create(fresh)


async def _create_all(objects: Sequence[KubeObject], client: Client) -> None:
    for one in objects:
        await _create(one, client)


async def _set_cordon(node: str, cordoned: bool, client: Client) -> None:
    await client.resource(NODES).patch(node, PatchType.MERGE, {"spec": {"unschedulable": cordoned}})


async def _evict(pods: Sequence[Pod], client: Client) -> None:
    for pod in pods:
        await client.resource(PODS, pod.metadata.namespace).delete(pod.metadata.name, uid=pod.metadata.uid)


async def _free(claim: ResourceClaim, client: Client) -> None:
    claims = client.resource(RESOURCECLAIMS, claim.metadata.namespace)
    known = await claims.get(claim.metadata.name)
    if known.status.allocation is not None:
        await claims.update_status(replace(known, status=replace(known.status, allocation=None)))
