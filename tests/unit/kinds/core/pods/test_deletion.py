"""How long a pod has to end."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.deletion import PodDeletion


def grace(wanted: int | None = None, *, said: int | None = None, node: str = "n", phase: str = "Running") -> int:
    values = {"spec": {"nodeName": node, "terminationGracePeriodSeconds": said}, "status": {"phase": phase}}
    return PodDeletion().grace_period(from_dict(Pod, values), wanted)


def test_the_request_comes_before_the_spec_and_the_spec_before_the_default() -> None:
    assert (grace(7, said=5), grace(said=5), grace()) == (7, 5, 30)


def test_none_is_immediate_and_less_than_none_is_a_second() -> None:
    assert (grace(0), grace(-3), grace(said=-1)) == (0, 1, 1)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_does_not_run_needs_no_time(phase: str) -> None:
    assert grace(7, phase=phase) == 0
    assert grace(7, node="") == 0


def test_a_second_request_shortens_the_time_and_never_lengthens_it() -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 10}
    leaving = from_dict(Pod, {"metadata": metadata, "spec": {"nodeName": "n"}})
    assert PodDeletion().grace_period(leaving, 5) == 5
    assert PodDeletion().grace_period(leaving, 60) == 10
