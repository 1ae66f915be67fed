"""Following objects and the pods that these own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cathedra.api.core.apps_v1 import ReplicaSet, ReplicaSetSpec
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PODS, REPLICASETS
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.workloads.workload import WorkloadController
from tests.running import run_with
from tests.unit.controllers.workloads.objects import SELECTOR, meta, template
from tests.unit.controllers.world import World, play


class Watching(WorkloadController[ReplicaSet]):
    """A workload that only records its calls."""

    name = "watching-controller"
    component = "watching"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, REPLICASETS)
        self.seen: list[tuple[str, list[str]]] = []
        self.again: float | None = None

    async def sync(self, obj: ReplicaSet) -> float | None:
        self.seen.append((obj.metadata.name, sorted(pod.metadata.name for pod in self.controlled(obj))))
        again, self.again = self.again, None
        return again


def follow(story: Callable[[World, Watching], Awaitable[None]]) -> None:
    made: list[Watching] = []

    def make(context: ControllerContext) -> Watching:
        made.append(Watching(context))
        return made[0]

    async def body(world: World) -> None:
        await story(world, made[0])

    play(make, body)


def replica_set(name: str = "w") -> ReplicaSet:
    return ReplicaSet(
        metadata=replace(meta(), name=name), spec=ReplicaSetSpec(replicas=1, selector=SELECTOR, template=template())
    )


def pod(name: str, app: str = "x") -> Pod:
    return Pod(metadata=replace(meta(name), labels={"app": app}), spec=template().spec)


@run_with(follow)
async def test_an_object_is_looked_at_when_it_or_a_pod_of_its_own_changes(world: World, controller: Watching) -> None:
    await world.create(REPLICASETS, replica_set())
    await world.quiet()
    assert controller.seen == [("w", [])]
    await world.create(PODS, pod("mine"))
    await world.quiet()
    assert controller.seen[-1] == ("w", ["mine"]), "an orphan that it selects is adopted"
    seen = len(controller.seen)
    await world.create(PODS, pod("other", "y"))
    await world.quiet()
    assert len(controller.seen) == seen, "pods that it does not select are nobody's business"
    await world.finish("mine")
    await world.quiet()
    assert len(controller.seen) == seen + 1
    await world.of(PODS).delete("mine", grace_period_seconds=0)
    await world.quiet()
    assert controller.seen[-1] == ("w", [])


@run_with(follow)
async def test_a_pod_that_changes_hands_is_told_to_both(world: World, controller: Watching) -> None:
    await world.create(REPLICASETS, replica_set("a"))
    await world.create(PODS, pod("p"))
    await world.quiet()
    assert controller.seen[-1] == ("a", ["p"])
    await world.create(REPLICASETS, replica_set("b"))
    await world.quiet()
    controller.seen.clear()
    (owner,) = (await world.of(PODS).get("p")).metadata.owner_references
    other = replace(owner, name="b", uid=(await world.of(REPLICASETS).get("b")).metadata.uid)
    await world.change(PODS, "p", lambda pod: with_metadata(pod, owner_references=(other,)))
    await world.quiet()
    assert ("a", []) in controller.seen
    assert ("b", ["p"]) in controller.seen


@run_with(follow)
async def test_who_wants_another_look_gets_one(world: World, controller: Watching) -> None:
    controller.again = 30.0
    await world.create(REPLICASETS, replica_set())
    await world.clock.sleep(29)
    assert len(controller.seen) == 1
    await world.clock.sleep(2)
    assert len(controller.seen) == 2


@run_with(follow)
async def test_what_is_being_deleted_adopts_nothing_and_what_is_gone_is_not_looked_at(
    world: World, controller: Watching
) -> None:
    await world.create(REPLICASETS, with_metadata(replica_set(), finalizers=("a.b/c",)))
    await world.quiet()
    await world.of(REPLICASETS).delete("w")
    await world.create(PODS, pod("p"))
    await world.quiet()
    assert controller.seen[-1] == ("w", [])
    assert (await world.of(PODS).get("p")).metadata.owner_references == ()
    await world.change(REPLICASETS, "w", lambda found: with_metadata(found, finalizers=()))
    await world.quiet()
    controller.seen.clear()
    await world.create(PODS, pod("q"))
    await world.quiet()
    assert controller.seen == []
