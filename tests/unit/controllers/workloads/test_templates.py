"""Pod templates as versions."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cathedra.controllers.workloads.templates import POD_TEMPLATE_HASH, same_template, template_hash, with_label
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
