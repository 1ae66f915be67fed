"""The numbers behind the scale of a custom resource."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.custom.objects import CustomObject, ScalePaths, content, make_type, with_content
from cathedra.apiserver.custom.scale import custom_numbers, with_replicas
from cathedra.apiserver.custom.schema import read_schema

PATHS = ScalePaths(".spec.size.replicas", ".status.replicas", ".status.selector")
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def instance(scale: ScalePaths | None = PATHS, **values: Any) -> CustomObject:
    kind = make_type("Thing", read_schema({"type": "object", "properties": {"spec": OPEN, "status": OPEN}}), scale)
    return with_content(kind, ObjectMeta(name="a"), values)


def test_numbers_are_found_where_the_definition_says() -> None:
    found = instance(spec={"size": {"replicas": 3}}, status={"replicas": 2, "selector": "app=a"})
    assert custom_numbers(found) == (3, 2, "app=a")


@pytest.mark.parametrize("scale", [None, PATHS])
def test_what_is_not_there_counts_as_none(scale: ScalePaths | None) -> None:
    assert custom_numbers(instance(scale)) == (0, 0, "")


def test_scaling_changes_the_one_number_and_makes_the_way_to_it() -> None:
    before = instance(spec={"size": {"replicas": 3, "max": 9}, "other": 1})
    assert content(with_replicas(before, 5)) == {"spec": {"size": {"replicas": 5, "max": 9}, "other": 1}}
    assert content(before)["spec"]["size"]["replicas"] == 3
    assert content(with_replicas(instance(), 5)) == {"spec": {"size": {"replicas": 5}}}
