"""Proposals are few, however much is requested."""

from __future__ import annotations

import pytest

from cathedra.insight.explanation.explain import explain
from cathedra.insight.reading.dumps import read_dump
from tests.costs import costs_less_than
from tests.insight.building import claim, device_class, gpus, node, request


@pytest.mark.parametrize("count", [3, 33, 1_000_000, 2**63 - 1])
def test_a_count_is_lowered_to_the_largest_that_fits(count: int) -> None:
    state = read_dump([node(), device_class(), gpus(2), claim("c", request(count=count))])
    with costs_less_than(3):
        answer = explain(state, "claim/c")
    texts = [change.text for change in answer.changes]
    assert texts[0] == f"lower the count of request 'gpu' of claim default/c from {count} to 2"


def test_claims_of_many_requests_with_many_alternatives_are_explained() -> None:
    """Each of the 256 alternatives could have a smaller count in 32 ways, and two of them in 33 million."""
    alternatives = [{"name": f"s{place}", "deviceClassName": "gpu", "count": 40 + place} for place in range(8)]
    requests = [{"name": f"r{place}", "firstAvailable": alternatives} for place in range(32)]
    state = read_dump([node(), device_class(), gpus(2), claim("c", *requests)])
    with costs_less_than(30):
        assert not explain(state, "claim/c").fits_on
