"""Defaults of single fields."""

from __future__ import annotations

from cathedra.api.core.apps_v1 import DeploymentSpec
from cathedra.kinds.defaults import absent


def test_a_default_is_for_what_was_left_out_or_is_empty() -> None:
    assert absent(DeploymentSpec(), replicas=1) == {"replicas": 1}


def test_what_was_written_stays_even_if_it_is_nothing() -> None:
    assert absent(DeploymentSpec(replicas=0, paused=False), replicas=1, paused=True) == {}
