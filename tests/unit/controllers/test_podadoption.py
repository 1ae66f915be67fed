"""Which pods a selector means."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.meta_v1 import LabelSelector, OwnerReference
from cathedra.api.struct import from_dict
from cathedra.client.objects import with_metadata
from cathedra.controllers.podadoption import orphan_namespace, selects
from tests.unit.scheduler.objects import pod


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, False),
        ({"matchLabels": {"app": "x"}}, True),
        ({"matchLabels": {"app": "y"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Nonsense"}]}, False),
    ],
)
def test_an_empty_or_invalid_selector_selects_nothing(selector: dict[str, Any] | None, selected: bool) -> None:
    made = from_dict(LabelSelector, selector) if selector is not None else None
    assert selects(made, {"app": "x"}) is selected


def test_only_pods_without_a_controller_are_orphans() -> None:
    def owned(*, controller: bool) -> OwnerReference:
        return OwnerReference(api_version="v1", kind="Job", name="j", uid="u", controller=controller)

    assert list(orphan_namespace(pod("p"))) == ["default"]
    assert list(orphan_namespace(with_metadata(pod("p"), owner_references=(owned(controller=False),)))) == ["default"]
    assert list(orphan_namespace(with_metadata(pod("p"), owner_references=(owned(controller=True),)))) == []
