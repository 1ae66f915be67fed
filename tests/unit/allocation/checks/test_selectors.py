"""The attributes that selectors read."""

from __future__ import annotations

import pytest

from cathedra.allocation import Features
from cathedra.allocation.checks.selectors import SelectorCache


@pytest.mark.parametrize(
    ("expression", "sees"),
    [
        ('device.attributes["drv"].model == "a"', ("drv/model",)),
        ('device.attributes["drv"].?numa.orValue(0) == 0 && device.driver == "drv"', ("drv/numa",)),
        ('"x" in device.attributes["acme.test"]', ("acme.test/x",)),
        ("device.allowMultipleAllocations", ()),
        ('device.capacity["drv"].mem.compareTo(quantity("1Gi")) >= 0', ()),
        ('device.attributes["drv"].exists(k, k == "model")', None),
        ("device.attributes.size() > 1", None),
    ],
)
def test_what_a_selector_looks_at_is_read_from_its_text(expression: str, sees: tuple[str, ...] | None) -> None:
    assert SelectorCache().of([expression], Features()).projection == sees


def test_the_same_selectors_are_one_question() -> None:
    questions = SelectorCache()
    one = questions.of(["true"], Features())
    assert questions.of(["true"], Features()) is one
    assert questions.of(["true"], Features(consumable_capacity=False)) is not one
