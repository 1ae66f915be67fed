"""The sentence about all nodes is kube-scheduler's, word for word (docs/spec/scheduling.md §16)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.scheduler.framework.diagnosis import Diagnosis, UnschedulablePod
from cathedra.scheduler.framework.status import Code, unresolvable, unschedulable


def test_reasons_are_counted_sorted_as_text_and_followed_by_what_post_filter_said() -> None:
    diagnosis = Diagnosis(8)
    for index in range(7):
        diagnosis.refuse(f"n{index}", unresolvable("cannot allocate all claims"))
    diagnosis.refuse("n7", unresolvable("invalid resource pools were encountered"))
    diagnosis.postfilter_message = (
        "still not schedulable, preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling."
    )
    assert diagnosis.message() == (
        "0/8 nodes are available: 1 invalid resource pools were encountered, 7 cannot allocate all claims. "
        "still not schedulable, preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling."
    )


def test_a_prefilter_refusal_is_told_once_instead_of_per_node() -> None:
    why = unresolvable("request req-0: device class gpu does not exist")
    diagnosis = Diagnosis(3, absent=why, prefilter_message=why.message)
    assert diagnosis.message() == "0/3 nodes are available: request req-0: device class gpu does not exist."


def test_nodes_that_were_excluded_beforehand_share_one_reason() -> None:
    diagnosis = Diagnosis(3, absent=unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]"))
    diagnosis.refuse("n1", unschedulable("Insufficient cpu", "Insufficient memory"))
    assert diagnosis.message() == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_a_code_is_found_among_the_refusals_and_among_the_excluded_nodes() -> None:
    diagnosis = Diagnosis(2, absent=unschedulable("excluded"))
    diagnosis.refuse("n1", unresolvable("a"))
    assert diagnosis.any_has(Code.UNSCHEDULABLE)
    diagnosis.refuse("n2", unresolvable("b"))
    assert not diagnosis.any_has(Code.UNSCHEDULABLE)
    assert diagnosis.any_has(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def test_ten_sorts_before_two_because_reasons_are_text() -> None:
    diagnosis = Diagnosis(12)
    for index in range(12):
        diagnosis.refuse(str(index), unschedulable("b" if index < 10 else "a"))
    assert diagnosis.message() == "0/12 nodes are available: 10 b, 2 a."


@given(st.dictionaries(st.text(min_size=1), st.sampled_from(["a", "b", "c"]), max_size=20), st.integers(0, 5))
def test_every_node_is_counted_exactly_once(refusals: dict[str, str], excluded: int) -> None:
    diagnosis = Diagnosis(len(refusals) + excluded, absent=unresolvable("excluded"))
    for node, reason in refusals.items():
        diagnosis.refuse(node, unschedulable(reason))
    assert diagnosis.reasons().total() == diagnosis.nodes


@given(st.integers(0, 3), st.integers(1, 5), st.integers(0, 3))
def test_one_refusal_of_many_nodes_counts_as_that_of_each(before: int, alike: int, after: int) -> None:
    shared, other = unschedulable("x").of("NodePorts"), unresolvable("y").of("DynamicResources")
    one_by_one, together = Diagnosis(20), Diagnosis(20)
    names = [f"n{number}" for number in range(before + alike + after)]
    for place, name in enumerate(names):
        one_by_one.refuse(name, shared if before <= place < before + alike else other)
    for name in names[:before]:
        together.refuse(name, other)
    given = dict.fromkeys(names[before : before + alike], shared)
    together.refuse_alike(given, shared)
    for name in names[before + alike :]:
        together.refuse(name, other)
    assert len(given) == alike
    assert (together.refusals, together.reasons()) == (one_by_one.refusals, one_by_one.reasons())
    assert together.unschedulable_plugins == one_by_one.unschedulable_plugins
    for code in Code:
        assert together.any_has(code) == one_by_one.any_has(code)


def test_only_plugins_that_signed_are_blamed() -> None:
    diagnosis = Diagnosis(2)
    diagnosis.refuse("n1", unschedulable("x").of("NodePorts"))
    diagnosis.refuse("n2", unschedulable("y"))
    assert diagnosis.unschedulable_plugins == {"NodePorts"}


def test_a_cluster_without_nodes_is_said_to_be_so() -> None:
    refused = UnschedulablePod(Diagnosis(0))
    assert refused.message == "no nodes available to schedule pods"
    assert refused.nominated is None


def test_elsewhere_the_sentence_is_the_nodes_own() -> None:
    diagnosis = Diagnosis(3, prefilter_message="nothing fits")
    assert UnschedulablePod(diagnosis).message == diagnosis.message()
    assert "nothing fits" in UnschedulablePod(diagnosis).message
