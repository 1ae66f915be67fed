"""A driver's controller: calls to the driver, and writes (docs/spec/driver-sdk.md §16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.classic.controller import Allocation, ClaimAllocation, ClassicDriver
from cathedra.classic.kinds.definitions import claim_state
from cathedra.classic.resources import CLAIMS, CONTEXTS
from cathedra.classic.testdriver import DRIVER_NAME
from cathedra.client.resources import EVENTS, PODS
from tests.running import run_with
from tests.unit.classic.world import World, claim, play, pod, resource_class, version_of


class Obedient(ClassicDriver):
    """A driver whose results the test sets."""

    def __init__(self) -> None:
        self.refuses: str = ""
        self.forgets = False
        self.unsuitable: list[str] = []
        self.asked: list[str] = []
        self.taken_back: list[str] = []

    async def allocate(self, claims: Sequence[ClaimAllocation], selected_node: str) -> None:
        """Give, refuse or forget."""
        for wanted in claims:
            self.asked.append(f"{wanted.claim.metadata.name}@{selected_node}")
            assert f"{DRIVER_NAME}/deletion-protection" in wanted.claim.metadata.finalizers
            if self.refuses:
                wanted.error = RuntimeError(self.refuses)
            elif not self.forgets:
                wanted.allocation = Allocation()

    async def deallocate(self, claim: v1alpha2.ResourceClaim) -> None:
        """Remember it."""
        self.taken_back.append(claim.metadata.name)

    async def unsuitable_nodes(self, pod: Pod, claims: Sequence[ClaimAllocation], potential_nodes: list[str]) -> None:
        """Report the nodes that the test has set."""
        for wanted in claims:
            wanted.unsuitable_nodes = [node for node in self.unsuitable if node in potential_nodes]


def with_driver(story: Any, **options: Any) -> None:
    async def told(world: World) -> None:
        driver = Obedient()
        world.start_driver(driver, **options)
        await story(world, driver)

    play("1.28", told)


@run_with(with_driver)
async def test_an_error_is_told_at_the_context_and_tried_again(world: World, driver: Obedient) -> None:
    driver.refuses = "out of cats"
    await world.create(resource_class(), claim(), pod(cat="c"))
    await world.clock.sleep(30)
    assert "claim c: out of cats" in await world.messages("Failed")
    driver.refuses = ""
    await world.running()


def test_events_name_the_kind_that_the_release_has() -> None:
    async def story(world: World) -> None:
        driver = Obedient()
        driver.refuses = "out of cats"
        world.start_driver(driver)
        await world.create(resource_class(), claim(), pod(cat="c"))
        await world.clock.sleep(30)
        events = [event for event in (await world.of(EVENTS).list()).items if event.reason == "Failed"]
        release = world.gates.release
        kind = "PodScheduling" if release == "1.26" else "PodSchedulingContext"
        told = {(event.involved_object.api_version, event.involved_object.kind) for event in events}
        assert told == {(f"resource.k8s.io/{version_of(release)}", kind)}

    for release in ("1.26", "1.27"):
        play(release, story)


@run_with(with_driver)
async def test_a_claim_without_allocation_or_error_is_an_error(world: World, driver: Obedient) -> None:
    driver.forgets = True
    await world.create(resource_class(), claim(allocationMode="Immediate"))
    await world.clock.sleep(30)
    assert "allocating claim: missing allocation from driver" in await world.messages("Failed")


@run_with(with_driver)
async def test_a_selected_node_that_does_not_suit_gets_no_allocation(world: World, driver: Obedient) -> None:
    driver.unsuitable = ["node-0"]
    await world.create(resource_class(), claim(), pod(cat="c"))
    await world.clock.sleep(60)
    assert driver.asked == []
    (answer,) = (await world.of(CONTEXTS).get("p")).status.resource_claims
    assert (answer.name, answer.unsuitable_nodes) == ("cat", ("node-0",))
    driver.unsuitable = []
    # The context is processed again without any change.
    await world.running(seconds=120)


@run_with(with_driver)
async def test_claims_of_other_drivers_are_left_alone(world: World, driver: Obedient) -> None:
    await world.create(resource_class("other", "other-driver.example.com"))
    await world.create(claim(class_name="other", allocationMode="Immediate"), claim("d", class_name="other"))
    await world.create(pod(cat="d"))
    await world.clock.sleep(60)
    assert driver.asked == []


@run_with(lambda test: with_driver(test, reserves=False))
async def test_a_driver_may_leave_the_reservation_to_the_scheduler(world: World, driver: Obedient) -> None:
    await world.create(resource_class(), claim(), pod(cat="c"))
    running = await world.running()
    found = await world.of(CLAIMS).get("c")
    assert [consumer.uid for consumer in found.status.reserved_for] == [running.metadata.uid]


@run_with(with_driver)
async def test_a_deleted_claim_is_deallocated_even_if_it_was_never_allocated(world: World, driver: Obedient) -> None:
    driver.refuses = "later"
    await world.create(resource_class(), claim(allocationMode="Immediate"))
    await world.until(CLAIMS, "c", lambda obj: bool(obj.metadata.finalizers))
    await world.of(CLAIMS).delete("c")
    await world.until_gone(CLAIMS, "c")
    assert driver.taken_back == ["c"]


@run_with(with_driver)
async def test_a_claim_is_given_back_after_its_last_consumer_and_stays_for_the_next(
    world: World, driver: Obedient
) -> None:
    await world.create(resource_class(), claim(), pod(cat="c"))
    await world.running()
    await world.of(PODS).delete("p")
    await world.until(CLAIMS, "c", lambda obj: claim_state(obj) == "pending" and not obj.metadata.finalizers)
    assert driver.taken_back == ["c"]
