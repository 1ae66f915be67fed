"""The stages of a pod: which follow which, and what is remembered."""

from __future__ import annotations

import itertools

import pytest

from cathedra.node.pods.lifecycle import IllegalStage, PodLifecycle, PodStage

ORDER = list(PodStage)


def test_a_pod_goes_from_its_arrival_to_its_end() -> None:
    life = PodLifecycle()
    assert (life.stage, life.occupies, life.set_up) == (PodStage.NEW, True, False)
    for stage in (PodStage.SETTING_UP, PodStage.RUNNING):
        life.advance(stage)
        assert not life.stopping
    for stage in (PodStage.STOPPING, PodStage.RELEASING, PodStage.OVER):
        assert life.occupies
        life.advance(stage)
        assert life.stopping
    assert (life.over, life.occupies, life.set_up) == (True, False, True)


def test_a_rejected_pod_takes_nothing_of_the_node_and_was_never_set_up() -> None:
    life = PodLifecycle()
    life.advance(PodStage.REJECTED)
    assert not life.occupies
    life.advance(PodStage.OVER)
    assert not life.set_up


@pytest.mark.parametrize(("stage", "wanted"), list(itertools.product(ORDER, ORDER)))
def test_no_stage_can_be_left_backwards(stage: PodStage, wanted: PodStage) -> None:
    paths = {
        PodStage.NEW: (),
        PodStage.REJECTED: (PodStage.REJECTED,),
        PodStage.SETTING_UP: (PodStage.SETTING_UP,),
        PodStage.RUNNING: (PodStage.SETTING_UP, PodStage.RUNNING),
        PodStage.STOPPING: (PodStage.STOPPING,),
        PodStage.RELEASING: (PodStage.STOPPING, PodStage.RELEASING),
        PodStage.OVER: (PodStage.STOPPING, PodStage.RELEASING, PodStage.OVER),
    }
    life = PodLifecycle()
    for step in paths[stage]:
        life.advance(step)
    if ORDER.index(wanted) <= ORDER.index(stage):
        with pytest.raises(IllegalStage, match=f"a pod that is {stage.value} cannot become {wanted.value}"):
            life.advance(wanted)
    assert life.stage is stage


def test_what_happened_to_the_pod_is_remembered() -> None:
    life = PodLifecycle()
    life.note_acknowledged(17.0)
    life.note_failure("DeadlineExceeded", "too long")
    assert (life.started_at, life.failure) == (17.0, ("DeadlineExceeded", "too long"))
