"""Which changes wake a pod that waits for claims."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod, PodResourceClaimStatus
from cathedra.api.core.meta_v1 import Condition, ObjectMeta
from cathedra.api.core.scheduling_v1beta1 import PodGroup, PodGroupResourceClaimStatus, PodGroupStatus
from cathedra.api.resource import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from cathedra.api.struct import replace
from cathedra.client.store import Store
from cathedra.scheduler.dynamicresources.claims import Resolver
from cathedra.scheduler.dynamicresources.hints import QueueingHints
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.semantics.podclaims import claim_names
from tests.unit.scheduler.objects import claim, pod


def known(name: str, *, allocated: bool = False) -> ResourceClaim:
    made = claim(name)
    status = replace(made.status, allocation=AllocationResult() if allocated else None)
    return replace(made, metadata=replace(made.metadata, uid=f"uid-{name}"), status=status)


def user(name: str, claim_name: str) -> Pod:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claim_name}])


def named(claim_name: str) -> Callable[[Pod], Pod]:
    statuses = (PodResourceClaimStatus(name="gpu", resource_claim_name=claim_name),)
    return lambda old: replace(old, status=replace(old.status, resource_claim_statuses=statuses))


CHANGES: dict[str, Callable[[Pod], Pod]] = {
    "bound": lambda old: replace(old, spec=replace(old.spec, node_name="n1")),
    "named": named("c"),
    "renamed": named("other"),
    "running": lambda old: replace(old, status=replace(old.status, phase="Running")),
}


class Scene:
    """Pods that wait for their claims."""

    def __init__(self, *claims: ResourceClaim) -> None:
        by_name = {one.metadata.name: one for one in claims}
        self.pods: Store[Pod] = Store()
        self.hints = QueueingHints(Resolver(lambda _, name: by_name.get(name), None), self.pods, counts_pods=False)

    def registration(self, resource: EventResource) -> EventRegistration:
        return next(one for one in self.hints.registrations() if one.resource is resource)

    def helps(self, waiting: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
        hint = self.registration(EventResource.RESOURCE_CLAIM).hint
        assert hint is not None
        return hint(waiting, ClusterEvent(EventResource.RESOURCE_CLAIM, Action.UPDATE, old, new))


def test_the_pods_own_claim_helps_when_it_appears_or_its_status_changes() -> None:
    scene = Scene(known("c"))
    waiting = user("p", "c")
    assert scene.helps(waiting, None, known("c"))
    assert not scene.helps(waiting, known("c"), known("c"))
    consumer = ResourceClaimConsumerReference(resource="pods", name="q", uid="q")
    reserved = replace(known("c"), status=replace(known("c").status, reserved_for=(consumer,)))
    assert scene.helps(waiting, reserved, known("c"))


def test_the_claim_of_another_pod_helps_only_by_freeing_devices() -> None:
    scene = Scene(known("c"))
    waiting = user("p", "c")
    assert not scene.helps(waiting, None, known("other"))
    assert scene.helps(waiting, known("other", allocated=True), known("other"))
    assert scene.helps(waiting, known("other", allocated=True), None)
    assert not scene.helps(waiting, known("other"), None), "it held nothing"


def test_while_a_claim_of_the_pod_is_missing_nothing_helps_but_its_creation() -> None:
    scene = Scene()
    assert not scene.helps(user("p", "c"), known("other", allocated=True), known("other"))


def test_only_pods_that_use_a_claim_are_asked_unless_devices_became_free() -> None:
    scene = Scene(known("c"))
    for name, claim_name in (("p", "c"), ("q", "other")):
        scene.pods.put(user(name, claim_name))
    scene.pods.put(pod("placed", nodeName="n1", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]))
    affected = scene.registration(EventResource.RESOURCE_CLAIM).affected
    assert affected is not None
    assert affected(ClusterEvent(EventResource.RESOURCE_CLAIM, Action.ADD, None, known("c"))) == (["uid-p"], False)
    freed = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.UPDATE, known("c", allocated=True), known("c"))
    assert affected(freed) == (["uid-p"], True)


@given(st.lists(st.sampled_from(["bound", "named", "renamed", "running"])))
def test_a_pod_is_asked_as_long_as_it_uses_the_claim_and_has_no_node(changes: list[str]) -> None:
    scene = Scene(known("c"))
    affected = scene.registration(EventResource.RESOURCE_CLAIM).affected
    assert affected is not None
    state = pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    scene.pods.put(state)
    for change in changes:
        state = CHANGES[change](state)
        scene.pods.put(state)
        waits = not state.spec.node_name and "c" in claim_names(state)
        found, _ = affected(ClusterEvent(EventResource.RESOURCE_CLAIM, Action.ADD, None, known("c")))
        assert found == (["uid-p"] if waits else [])


def test_the_names_of_generated_claims_help_the_pod_they_are_for() -> None:
    scene = Scene(known("c"))
    hint = scene.registration(EventResource.TARGET_POD).hint
    assert hint is not None
    waiting = user("p", "c")
    assert hint(waiting, ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_GENERATED_CLAIM, waiting, waiting))
    other = user("q", "c")
    assert not hint(waiting, ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_GENERATED_CLAIM, other, other))


def test_pods_that_go_make_room_only_where_devices_count_against_nodes() -> None:
    def resources(*, counts_pods: bool) -> list[EventResource]:
        hints = QueueingHints(Resolver(lambda *_: None, None), Store(), counts_pods=counts_pods)
        return [one.resource for one in hints.registrations()]

    assert EventResource.ASSIGNED_POD in resources(counts_pods=True)
    assert EventResource.ASSIGNED_POD not in resources(counts_pods=False)


def test_before_1_37_a_deleted_claim_wakes_no_pod() -> None:
    def actions(*, deletions: bool) -> Action:
        hints = QueueingHints(Resolver(lambda *_: None, None), Store(), counts_pods=False, deletions=deletions)
        return next(one.actions for one in hints.registrations() if one.resource is EventResource.RESOURCE_CLAIM)

    assert Action.DELETE in actions(deletions=True)
    assert Action.DELETE not in actions(deletions=False)


def test_the_end_of_a_nomination_wakes_pods_once_the_devices_of_its_node_are_free() -> None:
    """Before, the deallocation of the claims is the event that makes room (KEP-5690)."""
    freeing = {"n1"}
    hints = QueueingHints(
        Resolver(lambda *_: None, None), Store(), counts_pods=False, is_freeing=lambda node: node in freeing
    )
    registration = next(one for one in hints.registrations() if one.resource is EventResource.ASSIGNED_POD)
    assert registration.hint is not None
    preemptor = pod("preemptor")
    preemptor = replace(preemptor, status=replace(preemptor.status, nominated_node_name="n1"))
    ended = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE, preemptor, None)
    victim = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE, CHANGES["bound"](pod("victim")), None)
    waiting = user("waiting", "c")
    assert not registration.hint(waiting, ended)
    freeing.clear()
    assert registration.hint(waiting, ended)
    # The devices of a pod that has gone are free when its claims are.
    assert not registration.hint(waiting, victim)


def test_a_group_whose_claims_are_made_wakes_its_pods_and_a_condition_does_not() -> None:
    scene = Scene(known("c"))
    hint = scene.registration(EventResource.POD_GROUP).hint
    assert hint is not None
    member = pod("p", schedulingGroup={"podGroupName": "g"})
    group = PodGroup(metadata=ObjectMeta(namespace=member.metadata.namespace, name="g"))
    made = (PodGroupResourceClaimStatus(name="gpu", resource_claim_name="c"),)
    refused = (Condition(type="PodGroupInitiallyScheduled", status="False", message="2 scheduled, 1 remaining"),)
    claimed = replace(group, status=PodGroupStatus(resource_claim_statuses=made))
    failed = replace(group, status=PodGroupStatus(resource_claim_statuses=made, conditions=refused))

    def helps(old: PodGroup | None, new: PodGroup) -> bool:
        return hint(member, ClusterEvent(EventResource.POD_GROUP, Action.UPDATE, old, new))

    assert helps(None, group)
    assert helps(group, claimed)
    assert not helps(claimed, failed)
    assert not helps(group, replace(claimed, metadata=replace(claimed.metadata, name="other")))
