"""Runs of plans: one in virtual time to its end or its first violation, with the hash of everything that happened.

After the last step all faults end. Then the cluster must come to rest by itself within bounded time: what fits runs,
what ended is freed. At last the workloads are deleted, nothing may be left of them, and a pod for each device must run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.clock import run_virtual
from cathedra.faultsim.invariant import BrokenInvariant
from cathedra.faultsim.observation import allocated_devices, claim_names, ended
from cathedra.faultsim.plan import FaultPlan
from cathedra.faultsim.users import DEFAULT
from cathedra.faultsim.world import FaultedCluster
from cathedra.semantics.conditions import find_condition

REST_SECONDS: Final = 3600.0
"""Virtual time after the last fault within which the cluster must be at rest."""
HEAL_SECONDS: Final = 600.0
"""Virtual time within which all faults end when they are to."""
_POLL_SECONDS: Final = 20.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run."""

    digest: str
    """Hash of every durable write and every step of the nodes, with their times."""
    events: int
    """Lines of the history."""
    hours: float
    """Hours of virtual time that the run took."""
    cpu: float
    """Seconds of processor time."""
    invariant: str = ""
    """The invariant that was broken; "": none."""
    text: str = ""
    lines: tuple[str, ...] = ()
    """The last lines of the history."""
    faults: dict[str, float] = {}
    """Seconds for which each kind of fault was active."""
    messages: dict[str, int] = {}
    """Messages that met each kind of fault."""

    @property
    def failed(self) -> bool:
        """Return True if an invariant was broken."""
        return bool(self.invariant)


def run_plan(plan: FaultPlan) -> Outcome:
    """Run a plan in virtual time."""
    began = time.process_time()
    # The parts warn of every fault that they meet, thousands of times.
    logging.disable(logging.CRITICAL)
    try:
        outcome = run_virtual(_run(plan))
    finally:
        logging.disable(logging.NOTSET)
    return msgspec.structs.replace(outcome, cpu=time.process_time() - began)


async def _run(plan: FaultPlan) -> Outcome:
    world = FaultedCluster(plan)
    loop = asyncio.get_running_loop()
    # An error in a callback would otherwise be logged, and the run go on without what the callback was to do.
    loop.set_exception_handler(lambda _, context: world.ended("the event loop", _error_in(context)))
    story = asyncio.ensure_future(_play(world))
    failed = asyncio.ensure_future(world.finished.wait())
    await asyncio.wait({story, failed}, return_when=asyncio.FIRST_COMPLETED)
    seconds = loop.time()
    # Before anything is stopped, so that the hash covers only what the plan has decided.
    digest, events = world.chronicle.digest, world.chronicle.count
    lines = tuple(world.chronicle.lines)
    for task in (story, failed):
        task.cancel()
    results = await asyncio.gather(story, failed, return_exceptions=True)
    await world.close()
    if isinstance(results[0], Exception):
        raise results[0]
    violation = world.violation
    return Outcome(
        digest=digest,
        events=events,
        hours=seconds / 3600.0,
        cpu=0.0,
        invariant="" if violation is None else violation.invariant,
        text="" if violation is None else violation.text,
        lines=lines if violation is not None else (),
        faults=world.met,
        messages=dict(world.network.met),
    )


def _error_in(context: dict[str, Any]) -> BaseException:
    error = context.get("exception")
    return error if isinstance(error, BaseException) else RuntimeError(str(context.get("message")))


async def _play(world: FaultedCluster) -> None:
    plan, clock = world.plan, world.clock
    await world.start()
    began = clock.monotonic()
    for step in plan.steps:
        await clock.sleep(max(0.0, began + step.at - clock.monotonic()))
        world.step(step)
    await clock.sleep(max(0.0, began + plan.hours * 3600.0 - clock.monotonic()))
    try:
        async with asyncio.timeout(HEAL_SECONDS):
            await world.heal()
    except TimeoutError:
        # A part that does not end would let the run wait for ever.
        world.fail(BrokenInvariant("Progress", f"the faults do not end within {HEAL_SECONDS:.0f} s"))
        await asyncio.get_running_loop().create_future()
    await world.users.restore(plan.setup.nodes)
    await _until(world, lambda: _settled(world))
    await world.users.clear()
    await _until(world, lambda: _emptied(world))
    await world.users.probe(plan.setup.nodes * plan.setup.devices)
    await _until(world, lambda: _probed(world))
    await world.users.clear()
    await _until(world, lambda: _emptied(world))


async def _until(world: FaultedCluster, check: Callable[[], None]) -> None:
    """Wait until a check passes; the cluster has `REST_SECONDS`."""
    end = world.clock.monotonic() + REST_SECONDS
    while True:
        await world.clock.sleep(_POLL_SECONDS)
        try:
            check()
        except BrokenInvariant as violation:
            if world.clock.monotonic() >= end:
                world.fail(violation)
                # The run ends with the violation; this task is cancelled.
                await asyncio.get_running_loop().create_future()
        else:
            return


def _settled(world: FaultedCluster) -> None:
    for invariant in world.invariants:
        invariant.settled()
    _check_progress(world)


def _emptied(world: FaultedCluster) -> None:
    for key in world.chronicle.state.pods:
        raise BrokenInvariant("Progress", f"pod {key} is still there after it was deleted")
    for invariant in world.invariants:
        invariant.emptied()


def _probed(world: FaultedCluster) -> None:
    for key, pod in world.chronicle.state.pods.items():
        if pod.status.phase != "Running":
            raise BrokenInvariant(
                "Progress", f"pod {key} is {pod.status.phase} though a device is free for it{_reason(pod)}"
            )


def _check_progress(world: FaultedCluster) -> None:
    """Check that no pod waits that would fit: every node with enough free devices takes a pod.

    Only whole devices are counted here. For partitions and shares, only pods that were placed are checked.
    """
    state = world.chronicle.state
    free = _free_devices(world) if world.plan.setup.supply == "whole" else {}
    for key, pod in sorted(state.pods.items()):
        if pod.metadata.deletion_timestamp is not None:
            raise BrokenInvariant("Progress", f"pod {key} is being deleted and does not go")
        if ended(pod) or pod.status.phase == "Running":
            continue
        if pod.spec.node_name:
            raise BrokenInvariant("Progress", f"pod {key} has node {pod.spec.node_name} and does not run")
        if key[0] != DEFAULT or pod.spec.scheduling_group is not None:
            continue
        wanted = _wanted(world, pod)
        if wanted is None:
            continue
        for node, count in free.items():
            if count >= wanted:
                raise BrokenInvariant(
                    "Progress", f"pod {key} waits for {wanted} devices, {node} has {count}{_reason(pod)}"
                )


def _reason(pod: Pod) -> str:
    condition = find_condition(pod.status.conditions, "PodScheduled")
    return f": {condition.message}" if condition is not None and condition.message else ""


def _free_devices(world: FaultedCluster) -> dict[str, int]:
    state = world.chronicle.state
    free = dict.fromkeys(world.machines, world.plan.setup.devices)
    for claim in state.claims.values():
        for one in allocated_devices(claim):
            free[one.pool] = free.get(one.pool, 0) - 1
    return free


def _wanted(world: FaultedCluster, pod: Pod) -> int | None:
    """Return the number of devices that a pod waits for; None if that cannot be decided."""
    state = world.chronicle.state
    namespace = pod.metadata.namespace or ""
    names = list(claim_names(pod))
    if len(names) < len(pod.spec.resource_claims):
        raise BrokenInvariant("Progress", f"pod {namespace}/{pod.metadata.name} has no claim yet")
    total = 0
    for name in names:
        claim: Any = state.claims.get((namespace, name))
        # A pod waits for a claim that does not exist, and rightly.
        if claim is None or claim.status.allocation is not None or claim.metadata.deletion_timestamp is not None:
            return None
        total += sum((one.exactly.count or 1) for one in claim.spec.devices.requests if one.exactly is not None)
    return total
