"""Sentences of events, and the reason without its figures."""

from __future__ import annotations

from cathedra.advisor.sentences import answer_text, reason_text, shape_of
from cathedra.insight.explanation.report import Cause, ClaimReport, Explanation, Remedy


def explained(
    text: str, nodes: int | None = None, *changes: Remedy, claims: tuple[ClaimReport, ...] = ()
) -> Explanation:
    causes = (Cause("allocated", text, nodes),)
    return Explanation("pod a/b", "does not fit", text, causes, claims, nodes=5, changes=changes)


def test_the_sentence_has_the_first_cause_and_the_smallest_change() -> None:
    change = Remedy("lower count", "lower the count", ("n1", "n2", "n3"))
    assert answer_text(explained("needs 4, 2 are free", 3, change)) == (
        "needs 4, 2 are free [3 of 5 nodes]. Would help (tried): lower the count (then fits on n1, n2)"
    )


def test_claims_that_were_made_for_one_pod_are_named_by_their_template() -> None:
    claim = ClaimReport("ns/pod-gpu-x7k2", "template gpu", "pending")
    assert reason_text(explained("claim ns/pod-gpu-x7k2: no", claims=(claim,))) == "claim ns/template gpu: no"


def test_figures_holders_and_remedies_are_no_part_of_the_reason() -> None:
    one = "needs 4, 2 of 8 are free (held by a/x (2), b/y (4) and 2 more) [3 of 5 nodes]. Would help (tried): free a"
    other = "needs 4, 3 of 8 are free (held by c (12)) [1 of 7 nodes]. Would help (tried): free c"
    assert shape_of(one) == shape_of(other)
    assert shape_of("1 matching device is free") == shape_of("12 matching devices is free")
    assert shape_of(one) != shape_of("needs 4, 2 of 8 are tainted")
    assert shape_of("0 devices in reach (pool a/b is being updated)") != shape_of("2 devices in reach")
