"""What comes of looking for a node for one pod."""

from __future__ import annotations

from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.outcome import Refused


def test_a_cluster_without_nodes_is_said_to_be_so() -> None:
    refused = Refused(Diagnosis(0))
    assert refused.message == "no nodes available to schedule pods"
    assert refused.nominated is None


def test_elsewhere_the_sentence_is_the_nodes_own() -> None:
    diagnosis = Diagnosis(3, prefilter_message="nothing fits")
    assert Refused(diagnosis).message == diagnosis.message()
    assert "nothing fits" in Refused(diagnosis).message
