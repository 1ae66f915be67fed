"""What is attached for a claim stands in the claim, and nothing else of it is touched."""

from __future__ import annotations

import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import ResourceClaim
from cathedra.client.objects import with_metadata
from cathedra.driver import Attachment
from cathedra.driver.fabric.record import annotation_of, finalizer_of, recorded, with_record

NAME = "switch.example.com"
WHOLE = Attachment("rack-1", "gpu-0", "node-a")
SHARE = Attachment("rack-1", "gpu-1", "node-a", "0d6b1f0e-8c3f-4c55-9f0d-0a6a4ba0f7a1")


def claim(**annotations: str) -> ResourceClaim:
    return ResourceClaim(
        metadata=ObjectMeta(
            name="c", namespace="default", uid="u-1", annotations=annotations, finalizers=("example.com/other",)
        )
    )


def test_a_record_says_what_was_written() -> None:
    written = with_record(claim(mine="1"), NAME, {WHOLE, SHARE})
    assert recorded(written, NAME) == {WHOLE, SHARE}
    assert written.metadata.finalizers == ("example.com/other", finalizer_of(NAME))
    assert written.metadata.annotations["mine"] == "1"


def test_an_empty_record_leaves_no_trace() -> None:
    before = claim(mine="1")
    assert with_record(with_record(before, NAME, {WHOLE}), NAME, ()) == before


def test_writing_it_again_changes_nothing() -> None:
    written = with_record(claim(), NAME, [SHARE, WHOLE])
    assert with_record(written, NAME, [WHOLE, SHARE]) == written


def test_two_drivers_have_records_of_their_own() -> None:
    both = with_record(with_record(claim(), NAME, {WHOLE}), "other.example.com", {SHARE})
    assert (recorded(both, NAME), recorded(both, "other.example.com")) == ({WHOLE}, {SHARE})


def test_in_the_copy_of_a_claim_a_record_says_nothing() -> None:
    copy = with_metadata(with_record(claim(), NAME, {WHOLE}), uid="u-2")
    assert recorded(copy, NAME) == frozenset()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"uid":"u-1"}', '{"uid":"u-1","devices":[{"pool":"p"}]}', '{"uid":"u-1","devices":7}']
)
def test_what_is_no_record_is_none(text: str) -> None:
    assert recorded(claim(**{annotation_of(NAME): text}), NAME) == frozenset()
