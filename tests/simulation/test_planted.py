"""Each planted bug is found by the first few seeds, and by the invariant that it breaks."""

from __future__ import annotations

import pytest

from cathedra.faultsim.plan import Options, draw
from cathedra.faultsim.runs import Outcome, run_plan
from tests.simulation.planted import PLANTED

FOUND_BY = {
    "double allocation": {"DevicesAreHeldOnce", "CapacityIsNeverExceeded"},
    "lost write": {"AcknowledgedWritesSurvive", "WatchesAreComplete"},
    "leaked claim": {"FinishedClaimsAreFreed", "Progress"},
    "missed watch event": {"WatchesAreComplete"},
    "gang below minimum": {"GangsStartWhole"},
    "count overflow": {"CapacityIsNeverExceeded"},
    "null checkpoint": {"CheckpointsCoverPreparedClaims"},
    "claim freed while in use": {
        "ReservationsNamePods",
        "ContainersHaveTheirClaims",
        "NothingIsUnpreparedInUse",
        "FinishedClaimsAreFreed",
        "DevicesAreHeldOnce",
        "Progress",
    },
}


def first_failure(seeds: range) -> Outcome | None:
    return next((outcome for seed in seeds if (outcome := run_plan(draw(seed, Options(hours=2.0)))).failed), None)


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    with PLANTED[bug]():
        outcome = first_failure(range(100))
    assert outcome is not None
    assert outcome.invariant in FOUND_BY[bug], outcome.text
