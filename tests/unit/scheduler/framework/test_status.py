"""What plugins answer."""

from __future__ import annotations

import pytest

from cathedra.scheduler.framework.status import Code, Status, error, unresolvable, unschedulable


@pytest.mark.parametrize(
    ("status", "rejected"),
    [
        (unschedulable("no"), True),
        (unresolvable("never"), True),
        (Status(Code.PENDING), True),
        (Status(Code.SKIP), False),
        (error("broken"), False),
    ],
)
def test_refusals_are_told_from_what_broke(status: Status, rejected: bool) -> None:
    assert status.rejected is rejected


def test_reasons_are_one_text() -> None:
    assert unschedulable("Insufficient cpu", "Too many pods").message == "Insufficient cpu, Too many pods"


def test_the_first_signature_stands() -> None:
    signed = unschedulable("no").of("Fit")
    assert signed.plugin == "Fit"
    assert signed.of("Other") is signed
