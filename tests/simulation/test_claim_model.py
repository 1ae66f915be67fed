"""The model of claims, explored to the end, with and without its guards, and the states that the real parts reach."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Container, Pod, PodResourceClaim, PodSpec, ResourceRequirements
from cathedra.api.core.core_v1 import ResourceClaim as ContainerClaim
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    CELDeviceSelector,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from cathedra.client.resources import DEVICECLASSES, PODS, RESOURCECLAIMS
from cathedra.client.transport import APICall, EventType, Transport
from cathedra.clock import run_virtual
from cathedra.node.runtime.simulated import RUN_SECONDS
from tests.simulation.claim_model import DEVICES, NONE, Guards, explore, shown
from tests.simulation.claim_model import PODS as COUNT
from tests.simulation.history import History, Moment
from tests.simulation.world import World, running

SEEDS = 3

Shown = tuple[tuple[str, int, bool], ...]


def test_every_state_keeps_the_invariants_and_can_come_to_an_end() -> None:
    explored = explore()
    assert explored.violation is None
    assert explored.stuck == frozenset()
    assert len(explored.states) == 3408


@pytest.mark.parametrize(
    ("guards", "invariant", "length"),
    [
        (Guards(assume_before_forget=False), "DevicesAreHeldOnce", 4),
        (Guards(refuse_held_device=False), "PreparedDevicesDoNotOverlap", 13),
    ],
    ids=["a decision is forgotten before its write is seen", "a driver prepares a device that it has not unprepared"],
)
def test_without_a_guard_its_race_is_found_on_the_shortest_way(guards: Guards, invariant: str, length: int) -> None:
    violation = explore(guards).violation
    assert violation is not None
    assert (violation.invariant, len(violation.actions)) == (invariant, length)


class Projection:
    """The states of three pods, their claims and two devices, as users of the API saw them."""

    def __init__(self) -> None:
        self.states: set[Shown] = {shown([("waiting", NONE, False)] * COUNT)}
        self._pods = ["waiting"] * COUNT
        self._claims: list[tuple[int, bool]] = [(NONE, False)] * COUNT
        self._devices: dict[str, int] = {}

    def follow(self, history: History) -> None:
        for moment in sorted(history.moments, key=lambda moment: moment.revision):
            if isinstance(moment.obj, Pod):
                self._pods[_number(moment)] = _phase(moment.obj, deleted=moment.type is EventType.DELETED)
            elif isinstance(moment.obj, ResourceClaim):
                self._claims[_number(moment)] = self._held(moment.obj)
            self.states.add(shown([(phase, *claim) for phase, claim in zip(self._pods, self._claims, strict=True)]))

    def _held(self, claim: ResourceClaim) -> tuple[int, bool]:
        if claim.status.allocation is None:
            return NONE, bool(claim.status.reserved_for)
        (result,) = claim.status.allocation.devices.results
        return self._devices.setdefault(result.device, len(self._devices)), bool(claim.status.reserved_for)


def _number(moment: Moment) -> int:
    return int(moment.obj.metadata.name[1:])  # type: ignore[attr-defined]  # objects have metadata


def _phase(pod: Pod, *, deleted: bool) -> str:
    if deleted:
        return "gone"
    if pod.status.phase == "Pending":
        return "bound" if pod.spec.node_name else "waiting"
    return "running" if pod.status.phase == "Running" else "over"


async def three_pods(world: World) -> None:
    """Create them, and delete each at a moment of its own, by force or in order."""
    selector = DeviceSelector(cel=CELDeviceSelector(expression='device.driver == "gpu.example.com"'))
    device_class = DeviceClass(metadata=ObjectMeta(name="any"), spec=DeviceClassSpec(selectors=(selector,)))
    await world.of(DEVICECLASSES).create(device_class)
    request = DeviceRequest(name="gpu", exactly=ExactDeviceRequest(device_class_name="any"))
    for number in range(COUNT):
        spec = ResourceClaimSpec(devices=DeviceClaim(requests=(request,)))
        await world.of(RESOURCECLAIMS).create(ResourceClaim(metadata=ObjectMeta(name=f"c{number}"), spec=spec))
        await world.of(PODS).create(_pod(number, world.random))
    for number in world.random.sample(range(COUNT), COUNT):
        await world.clock.sleep(world.random.expovariate(1 / 8))
        grace = 0 if world.random.random() < 0.5 else None
        await world.of(PODS).delete(f"p{number}", grace_period_seconds=grace)
    await world.clock.sleep(600)
    claims: tuple[Any, ...] = (await world.of(RESOURCECLAIMS).list()).items
    assert [claim.status.allocation for claim in claims] == [None] * COUNT


def _pod(number: int, random: Random) -> Pod:
    container = Container(name="c", image="i", resources=ResourceRequirements(claims=(ContainerClaim(name="gpu"),)))
    spec = PodSpec(
        containers=(container,),
        restart_policy="Never",
        resource_claims=(PodResourceClaim(name="gpu", resource_claim_name=f"c{number}"),),
    )
    seconds = {RUN_SECONDS: str(random.randint(1, 20))}
    return Pod(metadata=ObjectMeta(name=f"p{number}", annotations=seconds), spec=spec)


class Late:
    """A transport whose calls and answers take up to half a second, so they overtake each other."""

    def __init__(self, inner: Transport, random: Random) -> None:
        self._inner, self._random = inner, random
        self.watch = inner.watch
        self.close = inner.close

    async def call(self, call: APICall) -> Any:
        await asyncio.sleep(self._random.uniform(0, 0.5))
        answer = await self._inner.call(call)
        await asyncio.sleep(self._random.uniform(0, 0.5))
        return answer


def test_the_real_parts_reach_states_of_the_model_alone() -> None:
    """Scheduler and controllers die and are started again, and their requests are late."""
    allowed = explore().shown()
    reached: set[Shown] = set()

    async def play(seed: int) -> None:
        async with running(seed, nodes=1, gpus=DEVICES, life=15.0, disturb=Late) as world:
            await three_pods(world)
            projection = Projection()
            projection.follow(world.history)
            reached.update(projection.states)

    for seed in range(SEEDS):
        run_virtual(play(seed))
    assert reached - allowed == set()
    assert len(reached) > 20
