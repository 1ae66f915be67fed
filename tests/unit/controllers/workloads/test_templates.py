"""Pod templates as versions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.controllers.workloads.templates import (
    POD_TEMPLATE_HASH,
    down_step,
    limits,
    same_template,
    template_hash,
    up_step,
    with_label,
)
from tests.unit.controllers.workloads.objects import template


@given(st.text("abc", min_size=1, max_size=5), st.integers(0, 3))
def test_a_hash_is_stable_short_and_safe(image: str, collisions: int) -> None:
    digest = template_hash(template(image), collisions)
    assert digest == template_hash(template(image), collisions)
    assert re.fullmatch("[bcdfghjklmnpqrstvwxz2456789]{1,10}", digest)


def test_another_template_and_another_collision_have_other_names() -> None:
    names = {template_hash(template(image), collisions) for image in ("v1", "v2") for collisions in range(3)}
    assert len(names) == 6


def test_the_label_of_the_hash_makes_no_other_version() -> None:
    labelled = with_label(template("v1"), POD_TEMPLATE_HASH, "x")
    assert labelled.metadata.labels[POD_TEMPLATE_HASH] == "x"
    assert same_template(labelled, template("v1"))
    assert not same_template(template("v2"), template("v1"))
    assert not same_template(with_label(template("v1"), "app", "other"), template("v1"))


@given(st.integers(0, 50), st.integers(0, 100), st.integers(0, 100), st.integers(0, 50), st.integers(0, 50))
def test_rollouts_never_exceed_their_limits(replicas: int, surge: int, lost: int, new: int, old: int) -> None:
    above, below = limits(replicas, f"{surge}%", f"{lost}%")
    assert above + below > 0
    wanted = up_step(replicas, above, min(new, replicas), min(new, replicas) + old)
    assert wanted >= min(new, replicas)
    assert wanted + old <= max(replicas + above, min(new, replicas) + old)
    assert down_step(replicas, below, new + old, 0) <= max(0, new + old - replicas + below)


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"),
    [("25%", "25%", (1, 1)), (0, 0, (0, 1)), ("50%", 2, (2, 2)), (None, None, (1, 1))],
)
def test_percentages_round_in_favour_of_the_rollout(surge: Any, unavailable: Any, expected: tuple[int, int]) -> None:
    assert limits(4, surge, unavailable) == expected
