"""Waiting pods: equality, pods that are not the scheduler's turn, and answers that are renewed."""

from __future__ import annotations

from cathedra.advisor.pods import NOT_MADE, PodAnswer
from cathedra.api.core.core_v1 import Pod, Toleration
from cathedra.api.resource import ResourceClaimTemplate
from cathedra.api.struct import from_dict, replace
from cathedra.client.resources import RESOURCECLAIMTEMPLATES
from cathedra.insight.explanation.report import Explanation
from tests.running import run_with
from tests.unit.advisor.world import World, waiting, with_world
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod

TEMPLATE = from_dict(
    ResourceClaimTemplate,
    {"metadata": {"name": "t", "namespace": "default"}, "spec": {"spec": {"devices": {"requests": [exactly()]}}}},
)
OWNED = [{"name": "gpu", "resourceClaimTemplateName": "t"}]


@run_with(with_world)
async def test_a_pod_whose_claims_nothing_has_made_waits_for_the_controller(world: World) -> None:
    advisor = world.advise()
    await world.client.resource(RESOURCECLAIMTEMPLATES, "default").create(TEMPLATE)
    await world.create(pod("a", resourceClaims=OWNED))
    assert await world.until_event("a") == [
        "no claim is made yet of template t, which the resourceclaim controller does"
    ]
    assert [one.obstacle for one in advisor.pods.answers.values()] == [NOT_MADE]


@run_with(with_world)
async def test_a_missing_template_is_named(world: World) -> None:
    world.advise()
    await world.create(pod("a", resourceClaims=OWNED))
    (text,) = await world.until_event("a")
    assert text.startswith("template 't' does not exist in namespace 'default'")


def test_remedies_name_the_pod_that_they_are_for() -> None:
    explanation = Explanation("pod default/p1", "does not fit", "")
    text = "no. Would help (tried): delete pod default/p1, not default/p10 or default/p1-x"
    answer = PodAnswer(1, 0.0, explanation, "allocated", text, "no")
    assert answer.text_for(pod("p1")) == text
    assert answer.text_for(pod("p2")) == text.replace("default/p1,", "default/p2,")


@run_with(with_world)
async def test_a_gated_pod_gets_no_event(world: World) -> None:
    world.advise()
    await world.create(*waiting("a", 2, schedulingGates=[{"name": "example.com/hold"}]))
    await world.clock.sleep(60)
    assert await world.texts("a", "Pod") == []


@run_with(with_world)
async def test_a_resource_that_a_class_stands_for_is_a_use_of_devices(world: World) -> None:
    advisor = world.advise()
    await world.clock.sleep(1)
    assert not advisor.model.uses_devices(pod("a", requests={"example.com/other": "1"}))
    await world.create(device_class("other", extendedResourceName="example.com/other"))
    await world.clock.sleep(1)
    assert advisor.model.uses_devices(pod("a", requests={"example.com/other": "1"}))


@run_with(with_world)
async def test_pods_with_other_labels_have_answers_of_their_own(world: World) -> None:
    """A pod on a node may refuse others by their labels, so equal specs do not suffice."""
    advisor = world.advise()
    red = {"labelSelector": {"matchLabels": {"tenant": "red"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [red]}}
    await world.create(claim("c"), pod("guard", nodeName="n1", affinity=apart))
    entry = [{"name": "gpu", "resourceClaimName": "c"}]
    await world.create(*[pod(name, labels={"tenant": name}, resourceClaims=entry) for name in ("red", "blue")])
    await world.clock.sleep(2)
    by_name = {one.pod.metadata.name: one for one in advisor.pods.by_uid.values()}
    for one in by_name.values():
        advisor.pods.judge(one)
    answers = {name: advisor.pods.answer(one) for name, one in by_name.items()}
    assert {name: answer is not None and answer.fits for name, answer in answers.items()} == {
        "red": False,
        "blue": True,
    }


@run_with(with_world)
async def test_a_pod_that_gets_a_toleration_while_it_waits_has_another_answer(world: World) -> None:
    advisor = world.advise()
    await world.create(*waiting("a"))
    await world.clock.sleep(2)
    (one,) = advisor.pods.by_uid.values()
    before = advisor.pods.key_of(one)
    added = Toleration(key="reserved", operator="Exists")

    def tolerant(pod: Pod) -> Pod:
        return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, added)))

    await world.change(Pod, "a", tolerant)
    await world.clock.sleep(2)
    assert advisor.pods.key_of(one) != before


@run_with(with_world)
async def test_old_answers_are_renewed_and_forgotten_with_their_pods(world: World) -> None:
    advisor = world.advise()
    await world.create(*waiting("a", 4))
    await world.until_event("a")
    await world.create(node("n2"))
    await world.api.until(lambda: {one.version for one in advisor.pods.answers.values()} == {advisor.model.version})
    await world.delete(Pod, "a")
    await world.api.until(lambda: not advisor.pods.answers)


@run_with(with_world)
async def test_a_pod_on_which_the_analysis_fails_does_not_stop_the_others(world: World) -> None:
    advisor = world.advise()
    judge = advisor.pods.judge

    def failing(one: object) -> object:
        if one.pod.metadata.name == "a":  # type: ignore[attr-defined]
            raise RuntimeError("odd")
        return judge(one)  # type: ignore[arg-type]

    advisor.pods.judge = failing  # type: ignore[assignment,method-assign]
    await world.create(*waiting("a", 4), *waiting("b", 4))
    await world.until_event("b")
    assert await world.texts("a", "Pod") == []
