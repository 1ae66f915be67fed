"""Namespaces are furnished when they come and emptied before they go."""

from __future__ import annotations

import msgspec

from cathedra.api.core.core_v1 import ConfigMap, Container, Event, ObjectReference, Pod, PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import CONFIGMAPS, EVENTS, NAMESPACES, PODS, SERVICEACCOUNTS
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.namespaces import NamespaceController, RootCAPublisher, ServiceAccountController
from tests.running import run_with
from tests.unit.controllers.namespaces.objects import make
from tests.unit.controllers.world import World, play
from tests.unit.spoiled import SPOILED, SpoiledTransport


def emptier(context: ControllerContext) -> NamespaceController:
    return NamespaceController(msgspec.structs.replace(context, served=(CONFIGMAPS, PODS, SERVICEACCOUNTS)))


async def told(world: World) -> dict[str, tuple[str, str, str]]:
    conditions = (await world.of(NAMESPACES).get("ns")).status.conditions
    return {condition.type: (condition.status, condition.reason, condition.message) for condition in conditions}


async def exists(world: World, name: str = "ns") -> bool:
    return name in await world.names(NAMESPACES)


@run_with(lambda test: play(emptier, test))
async def test_an_empty_namespace_goes_after_the_grace_period(world: World) -> None:
    await make(world)
    await world.of(NAMESPACES).delete("ns")
    await world.clock.sleep(3)
    assert await exists(world)
    await world.clock.sleep(3)
    assert not await exists(world)


@run_with(lambda test: play(emptier, test))
async def test_content_goes_first_and_what_holds_it_is_told(world: World) -> None:
    await make(world)
    held = ConfigMap(metadata=ObjectMeta(name="held", namespace="ns", finalizers=("a.b/c",)))
    await world.create(CONFIGMAPS, held)
    await world.create(CONFIGMAPS, ConfigMap(metadata=ObjectMeta(name="free", namespace="ns")))
    await world.of(NAMESPACES).delete("ns")
    await world.clock.sleep(10)
    namespace = await world.of(NAMESPACES).get("ns")
    assert namespace.status.phase == "Terminating"
    assert await told(world) == {
        "NamespaceDeletionDiscoveryFailure": (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances",
        ),
    }
    assert await world.names(CONFIGMAPS, "ns") == ["held"]
    fresh = await world.of(CONFIGMAPS, "ns").get("held")
    await world.of(CONFIGMAPS, "ns").update(with_metadata(fresh, finalizers=()))
    await world.clock.sleep(10)
    assert not await exists(world)


@run_with(lambda test: play(emptier, test))
async def test_events_go_with_their_namespace(world: World) -> None:
    await make(world)
    about = ObjectReference(kind="Pod", namespace="ns", name="p")
    await world.create(EVENTS, Event(metadata=ObjectMeta(name="e", namespace="ns"), involved_object=about))
    await world.of(NAMESPACES).delete("ns")
    await world.clock.sleep(10)
    assert not await exists(world)
    assert await world.names(EVENTS, "ns") == []


@run_with(lambda test: play(emptier, test))
async def test_pods_end_before_anything_else_is_taken_away(world: World) -> None:
    await make(world)
    containers = (Container(name="c", image="i"),)
    spec = PodSpec(containers=containers, node_name="n1", termination_grace_period_seconds=8)
    await world.create(PODS, Pod(metadata=ObjectMeta(name="p", namespace="ns"), spec=spec))
    await world.create(CONFIGMAPS, ConfigMap(metadata=ObjectMeta(name="needed", namespace="ns")))
    await world.of(NAMESPACES).delete("ns")
    await world.clock.sleep(7)
    assert await world.names(CONFIGMAPS, "ns") == ["needed"]
    assert (await told(world))["NamespaceContentRemaining"][0] == "False"
    await world.of(PODS, "ns").delete("p", grace_period_seconds=0)
    await world.quiet()
    assert not await exists(world)


@run_with(lambda test: play(emptier, test))
async def test_a_pod_that_is_not_gone_in_time_is_told_as_a_failure(world: World) -> None:
    await make(world)
    containers = (Container(name="c", image="i"),)
    spec = PodSpec(containers=containers, node_name="n1", termination_grace_period_seconds=2)
    await world.create(PODS, Pod(metadata=ObjectMeta(name="p", namespace="ns"), spec=spec))
    await world.of(NAMESPACES).delete("ns")
    await world.clock.sleep(7)
    left = "unexpected items still remain in namespace: ns for gvr: /v1, Resource=pods"
    expected = ("True", "ContentDeletionFailed", f"Failed to delete all resource types, 1 remaining: {left}")
    assert (await told(world))["NamespaceDeletionContentFailure"] == expected


@run_with(lambda test: play(emptier, test, through=SpoiledTransport))
async def test_what_cannot_be_decoded_goes_too_and_a_namespace_with_it_left_stays(world: World) -> None:
    await make(world)
    for name, finalizers in (("free", ()), ("held", ("a.b/c",))):
        metadata = ObjectMeta(name=name, namespace="ns", finalizers=finalizers, annotations={SPOILED: "data"})
        await world.create(CONFIGMAPS, ConfigMap(metadata=metadata))
    await world.of(NAMESPACES).delete("ns")
    await world.clock.sleep(60)
    assert await world.names(CONFIGMAPS, "ns") == ["held"]
    left = "ConfigMap ns/held cannot be decoded: Expected `array`, got `null` at data"
    assert left in (await told(world))["NamespaceDeletionContentFailure"][2]
    held = await world.of(CONFIGMAPS, "ns").get("held")
    await world.of(CONFIGMAPS, "ns").update(with_metadata(held, finalizers=()))
    await world.clock.sleep(60)
    assert not await exists(world)


# What every namespace has.


def publisher(context: ControllerContext) -> RootCAPublisher:
    return RootCAPublisher(msgspec.structs.replace(context, root_ca="PEM"))


@run_with(lambda test: play((ServiceAccountController, publisher), test))
async def test_every_active_namespace_has_account_and_certificate_and_gets_them_back(world: World) -> None:
    await make(world)
    await world.quiet()
    assert await world.names(SERVICEACCOUNTS, "ns") == ["default"]
    published = await world.of(CONFIGMAPS, "ns").get("kube-root-ca.crt")
    assert published.data == {"ca.crt": "PEM"}
    await world.of(SERVICEACCOUNTS, "ns").delete("default")
    await world.of(CONFIGMAPS, "ns").update(replace(published, data={"ca.crt": "other"}))
    await world.quiet()
    assert await world.names(SERVICEACCOUNTS, "ns") == ["default"]
    assert (await world.of(CONFIGMAPS, "ns").get("kube-root-ca.crt")).data == {"ca.crt": "PEM"}
    assert await world.names(SERVICEACCOUNTS, "kube-system") == ["default"]
