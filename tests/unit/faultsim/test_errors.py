"""The error of a plan."""

from __future__ import annotations

import pytest

from cathedra.faultsim.errors import InvalidPlan
from cathedra.faultsim.plan import Options, draw


def test_the_error_of_a_plan_names_what_is_wrong_and_what_is_known() -> None:
    with pytest.raises(InvalidPlan, match="unknown faults: rain; known are: lost-requests"):
        draw(1, Options(faults=("rain",)))
