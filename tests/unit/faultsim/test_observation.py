"""The observed state: decoded writes, revisions, and times without faults."""

from __future__ import annotations

from tests.unit.faultsim.builders import Story, pod


def test_writes_are_decoded_counted_and_hashed() -> None:
    story = Story()
    empty = story.chronicle.digest
    story.write("pods", "p", pod())
    story.write("pods", "p", pod(node="n"))
    state = story.chronicle.state
    assert state.pods["default", "p"].spec.node_name == "n"
    prefix = story.chronicle.prefix_of("", "pods")
    assert (state.counts[prefix], state.before[prefix]) == (1, {1: 0, 2: 1})
    assert story.chronicle.digest != empty
    story.write("pods", "p", None)
    assert (state.counts[prefix], dict(state.pods)) == (0, {})
    assert state.pod_uids == {"uid-p": ("default", "p")}


def test_both_groups_of_events_have_one_prefix() -> None:
    chronicle = Story().chronicle
    assert chronicle.prefix_of("", "events") == chronicle.prefix_of("events.k8s.io", "events") != ""


def test_time_without_a_fault_counts_from_the_last_one() -> None:
    story = Story()
    with story.chronicle.disturbed():
        story.now += 10
        assert story.chronicle.calm_since(0.0) == 0.0
    story.now += 5
    assert (story.chronicle.calm_since(0.0), story.chronicle.calm_since(story.now - 2)) == (5.0, 2.0)
    assert story.chronicle.is_calm(4)
    assert not story.chronicle.is_calm(5)
