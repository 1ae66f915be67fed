"""Controller and scheduler die between any two of their writes, and everything still comes right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from cathedra.api.struct import replace
from cathedra.classic.kinds.definitions import claim_state
from cathedra.classic.resources import CLAIMS, CONTEXTS
from cathedra.classic.testdriver import DRIVER_NAME, TestDriver
from cathedra.client.resources import PODS
from tests.unit.classic.world import World, claim, play, pod, resource_class, template

RELEASES = ("1.26", "1.28", "1.30")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("seed", range(3))
def test_pods_come_through_while_scheduler_driver_and_controllers_are_killed(release: str, seed: int) -> None:
    """No claim is lost, and none is allocated twice: the driver's count equals that of the claims."""

    async def story(world: World) -> None:
        limits = {"node_local": True, "nodes": ("node-0", "node-1"), "max_allocations": 2}
        await world.start_test_driver(**limits)
        await world.create(resource_class(), template())
        for number in range(8):
            await world.create(pod(f"p{number}", runs=world.random.randint(1, 60), cat="t:t"))
        for _ in range(60):
            await world.clock.sleep(world.random.expovariate(1.0))
            victim = world.random.choice(("scheduler", "controllers", DRIVER_NAME))
            await world.stop(victim)
            await world.clock.sleep(world.random.uniform(0, 1))
            if victim == "scheduler":
                world.start_scheduler()
            elif victim == "controllers":
                world.start_controllers()
            else:
                await world.start_test_driver(**limits)
            held = [obj for obj in (await world.of(CLAIMS).list()).items if obj.status.allocation is not None]
            assert len(held) <= 4
        left = {f"p{number}" for number in range(8)}
        deadline = world.clock.monotonic() + 3600
        while left:
            # In 1.26 a pod that has ended keeps its claims until it is deleted.
            ended = [obj for obj in (await world.of(PODS).list()).items if obj.status.phase == "Succeeded"]
            for name in left & {obj.metadata.name for obj in ended}:
                await world.of(PODS).delete(name)
                left.remove(name)
            assert world.clock.monotonic() < deadline, left
            await world.clock.sleep(1)
        await world.stop(DRIVER_NAME)
        driver = await world.start_test_driver(**limits)
        for obj in (await world.of(CLAIMS).list()).items:
            await world.until_gone(CLAIMS, obj.metadata.name, seconds=3600)
        assert driver.statistics() == {}
        assert (await world.of(CONTEXTS).list()).items == ()

    play(release, story, nodes=2, seed=seed)


SCHEDULER = "system:kube-scheduler"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("victim", [SCHEDULER, DRIVER_NAME])
def test_dying_before_any_one_of_its_writes_a_part_loses_nothing(release: str, victim: str) -> None:
    """Every write of the walk of one pod in turn is the one that is not made; then the part comes back."""

    async def start(world: World) -> None:
        if victim == SCHEDULER:
            world.start_scheduler()
        else:
            await world.start_test_driver()

    def story(writes: int) -> Callable[[World], Awaitable[bool]]:
        async def told(world: World) -> bool:
            if victim == SCHEDULER:
                await world.stop("scheduler")
                await world.start_test_driver()
            died = world.let_die(victim, writes)
            await start(world)

            async def revive() -> None:
                await died.wait()
                await world.stop("scheduler" if victim == SCHEDULER else DRIVER_NAME)
                del world.dying[victim]
                await start(world)

            world.start("revival", revive())
            await world.create(resource_class(), template(), pod(cat="t:t"))
            await world.running()
            (found,) = (await world.of(CLAIMS).list()).items
            assert claim_state(found) == "allocated,reserved"
            await world.of(PODS).delete("p")
            await world.until_gone(CLAIMS, found.metadata.name)
            await world.until_gone(CONTEXTS, "p")
            return died.is_set()

        return told

    deaths = next(writes for writes in count() if not play(release, story(writes)))
    assert deaths >= 3


@pytest.mark.parametrize("release", RELEASES)
def test_a_claim_that_is_deleted_during_the_negotiation_goes_and_its_pod_waits(release: str) -> None:
    async def story(world: World) -> None:
        await world.create(resource_class(), claim(), pod(cat="c"))
        await world.until(CONTEXTS, "p", lambda obj: bool(obj.spec.selected_node))
        await world.of(CLAIMS).delete("c")
        await world.until_gone(CLAIMS, "c")
        await world.start_test_driver()
        await world.clock.sleep(120)
        assert (await world.of(PODS).get("p")).spec.node_name == ""
        await world.create(claim())
        await world.running()

    play(release, story)


@pytest.mark.parametrize("release", RELEASES)
def test_a_claim_that_is_deleted_while_its_pod_runs_stays_until_the_pod_has_gone(release: str) -> None:
    async def story(world: World) -> None:
        driver = await world.start_test_driver()
        await world.create(resource_class(), claim(), pod(cat="c"))
        await world.running()
        await world.of(CLAIMS).delete("c")
        await world.clock.sleep(120)
        assert claim_state(await world.of(CLAIMS).get("c")) == "deleted,allocated,reserved"
        await world.of(PODS).delete("p")
        await world.until_gone(CLAIMS, "c")
        assert driver.statistics() == {}

    play(release, story)


@pytest.mark.parametrize("release", RELEASES)
def test_a_pod_that_is_deleted_during_the_negotiation_leaves_nothing(release: str) -> None:
    async def story(world: World) -> None:
        await world.create(resource_class(), template(), pod(cat="t:t"))
        await world.until(CONTEXTS, "p", lambda obj: bool(obj.spec.selected_node))
        (made,) = (await world.of(CLAIMS).list()).items
        await world.of(PODS).delete("p")
        await world.until_gone(CONTEXTS, "p")
        await world.until_gone(CLAIMS, made.metadata.name)

    play(release, story)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("entry", ["c", "t:t"], ids=["named", "generated"])
def test_a_pod_that_is_deleted_after_any_one_write_leaves_nothing(release: str, entry: str) -> None:
    """Each write of the walk of one pod, of any part, is in turn the one after which the pod is deleted."""

    def story(writes: int) -> Callable[[World], Awaitable[bool]]:
        async def told(world: World) -> bool:
            driver = await world.start_test_driver()
            world.interrupt(writes, lambda: world.of(PODS).delete("p"))
            await world.create(resource_class(), template(), claim(), pod(cat=entry))
            interrupted = await world.running_or_interrupted()
            if not interrupted:
                await world.of(PODS).delete("p")
            await world.clock.sleep(120)
            if release == "1.26" and entry == "c":
                # Only from 1.28 on the controller has a claim taken back after its last consumer.
                assert (await world.of(CLAIMS).get("c")).status.reserved_for == ()
                await world.of(CLAIMS).delete("c")
                await world.clock.sleep(120)
                await nothing_is_left(world, driver)
            else:
                await nothing_is_left(world, driver, kept=("c",))
            return interrupted

        return told

    steps = next(writes for writes in count(1) if not play(release, story(writes))) - 1
    assert steps >= 5


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("entry", ["c", "t:t"], ids=["named", "generated"])
def test_a_claim_that_is_deleted_after_any_one_write_goes_and_leaves_nothing(release: str, entry: str) -> None:
    """Each write of the walk of one pod is in turn the one after which its claims are deleted; the pod follows."""

    def story(writes: int) -> Callable[[World], Awaitable[bool]]:
        async def told(world: World) -> bool:
            driver = await world.start_test_driver()
            world.interrupt(writes, lambda: delete_claims(world))
            await world.create(resource_class(), template(), claim(), pod(cat=entry))
            interrupted = await world.running_or_interrupted()
            if not interrupted:
                await delete_claims(world)
            await world.clock.sleep(120)
            await world.of(PODS).delete("p")
            await world.clock.sleep(120)
            await nothing_is_left(world, driver)
            return interrupted

        return told

    steps = next(writes for writes in count(1) if not play(release, story(writes))) - 1
    assert steps >= 5


async def delete_claims(world: World) -> None:
    """Delete all claims that there are."""
    for found in (await world.of(CLAIMS).list()).items:
        await world.of(CLAIMS).delete(found.metadata.name)


async def nothing_is_left(world: World, driver: TestDriver, *, kept: tuple[str, ...] = ()) -> None:
    """No pod, no negotiation, no allocation; of claims those that are kept, free for the next pod."""
    assert (await world.of(PODS).list()).items == ()
    assert (await world.of(CONTEXTS).list()).items == ()
    claims = (await world.of(CLAIMS).list()).items
    assert tuple(found.metadata.name for found in claims) == kept, claims
    for found in claims:
        assert (claim_state(found), found.status.reserved_for, found.metadata.finalizers) == ("pending", (), ())
    assert driver.statistics() == {}


def test_a_pod_put_on_a_node_by_hand_waits_in_1_26_and_gets_its_claims_since_1_28() -> None:
    async def by_hand(world: World) -> None:
        await world.start_test_driver()
        await world.create(resource_class(), claim())
        placed = pod(cat="c")
        await world.create(replace(placed, spec=replace(placed.spec, node_name="node-0")))

    async def refused(world: World) -> None:
        await by_hand(world)
        await world.clock.sleep(120)
        assert (await world.of(PODS).get("p")).status.phase == "Pending"
        assert "is not allowed to use ResourceClaim c" in (await world.messages("FailedPrepareDynamicResources"))[-1]

    async def served(world: World) -> None:
        await by_hand(world)
        await world.running()
        assert claim_state(await world.of(CLAIMS).get("c")) == "allocated,reserved"

    play("1.26", refused)
    play("1.28", served)
