"""Workloads as they are written."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.scheduling_v1alpha3 import Workload
from cathedra.api.struct import from_dict, replace
from tests.unit.kinds.objects import context, created, definition_of, texts, updated

TEMPLATE = {
    "name": "t",
    "schedulingPolicy": {"basic": {}},
    "resourceClaims": [{"name": "a", "resourceClaimName": "x"}],
}
WORKLOAD = from_dict(Workload, {"spec": {"podGroupTemplates": [TEMPLATE]}})
STRATEGY = definition_of("workloads").strategy


def test_templates_have_claims_where_groups_may_have_them() -> None:
    opened = context(GenericWorkload=True, DRAWorkloadResourceClaims=True)
    assert created(STRATEGY, WORKLOAD, opened) == (WORKLOAD, [])
    made, errors = created(STRATEGY, WORKLOAD, context(GenericWorkload=True))
    assert (errors, made.spec.pod_group_templates[0].resource_claims) == ([], ())
    assert made.spec.pod_group_templates[0].name == "t"


def test_the_claims_of_templates_never_change() -> None:
    (template,) = WORKLOAD.spec.pod_group_templates
    without = replace(template, resource_claims=())
    other = replace(WORKLOAD, spec=replace(WORKLOAD.spec, pod_group_templates=(without,)))
    (text,) = texts(updated(STRATEGY, other, WORKLOAD, context(everything=True))[1])
    assert text.startswith("spec.podGroupTemplates[0].resourceClaims: Invalid value: ")
    assert text.endswith("field is immutable")
    assert updated(STRATEGY, WORKLOAD, WORKLOAD, context(everything=True))[1] == []


def leaf(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "schedulingPolicy": {"basic": {}}, **more}


def nest(name: str, *groups: dict[str, Any], below: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    made = {**leaf(name, **more), "podGroupTemplates": [*groups], "compositePodGroupTemplates": [*below]}
    return {key: value for key, value in made.items() if value != []}


@pytest.mark.parametrize(
    ("templates", "errors"),
    [
        ([nest("a", leaf("b"))], []),
        ([nest("a", leaf("a"))], ['[0].podGroupTemplates[0].name: Duplicate value: "a"']),
        ([nest("a", leaf("b")), nest("c", leaf("b"))], ['[1].podGroupTemplates[0].name: Duplicate value: "b"']),
        (
            [nest("a", leaf("b"), below=(nest("b", leaf("c")),))],
            ['[0].compositePodGroupTemplates[0].name: Duplicate value: "b"'],
        ),
        (
            [nest("a")],
            ['[0]: Invalid value: "a": must have at least one child PodGroupTemplate or CompositePodGroupTemplate'],
        ),
        ([nest("A_", leaf("b"))], ["[0].name: Invalid value"]),
        ([nest("a", leaf("b"), schedulingPolicy={"gang": {"minGroupCount": 0}})], ["minGroupCount"]),
        ([nest(f"c{number}", leaf(f"g{number}")) for number in range(9)], ["Too many: 9: must have at most 8 items"]),
    ],
)
def test_templates_of_groups_have_rules(templates: list[dict[str, Any]], errors: list[str]) -> None:
    workload = from_dict(Workload, {"spec": {"compositePodGroupTemplates": templates}})
    found = texts(created(STRATEGY, workload, context(everything=True))[1])
    assert len(found) == len(errors)
    for text, part in zip(found, errors, strict=True):
        assert text.startswith("spec.compositePodGroupTemplates")
        assert part in text


def test_templates_stay_below_a_depth() -> None:
    def deep(levels: int) -> dict[str, Any]:
        below = (deep(levels - 1),) if levels > 1 else ()
        return nest(f"c{levels}", *([] if below else [leaf("g")]), below=below)

    for levels, expected in ((3, []), (4, ["maximum template hierarchy depth is 4"])):
        workload = from_dict(Workload, {"spec": {"compositePodGroupTemplates": [deep(levels)]}})
        found = texts(created(STRATEGY, workload, context(everything=True))[1])
        assert [text.rpartition(": ")[2] for text in found] == expected


def test_all_templates_have_one_priority() -> None:
    flat = {"podGroupTemplates": [leaf("a", priority=1), leaf("b")]}
    nested = {"compositePodGroupTemplates": [nest("a", leaf("b", priorityClassName="high"))]}
    found = [
        texts(created(STRATEGY, from_dict(Workload, {"spec": spec}), context(everything=True))[1])
        for spec in (flat, nested)
    ]
    assert found == [
        ["spec: Invalid value: null: detected multiple priority configurations"],
        [
            "spec: Invalid value: null: all priority and priorityClassName values must be identical,"
            " detected multiple values"
        ],
    ]
