"""FlowSchemas and PriorityLevelConfigurations: defaults, rules and columns."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.flowcontrol_v1 import FlowSchema, PriorityLevelConfiguration
from cathedra.api.struct import from_dict
from cathedra.kinds.machinery.flowcontrol import (
    default_flow_schema,
    default_priority_level,
    flow_schema_cells,
    priority_level_cells,
    validate_flow_schema,
    validate_priority_level,
)

RULES = [{"subjects": [{"kind": "User", "user": {"name": "u"}}], "nonResourceRules": [{"verbs": ["*"]}]}]


def schema(**spec: Any) -> FlowSchema:
    given = {"priorityLevelConfiguration": {"name": "l"}, "matchingPrecedence": 5, "rules": RULES, **spec}
    return from_dict(FlowSchema, {"metadata": {"name": "s"}, "spec": given})


def level(**spec: Any) -> PriorityLevelConfiguration:
    return from_dict(PriorityLevelConfiguration, {"metadata": {"name": "l"}, "spec": spec})


def test_defaults_are_those_of_kubernetes() -> None:
    assert default_flow_schema(schema(matchingPrecedence=0)).spec.matching_precedence == 1_000
    filled = default_priority_level(level(type="Limited", limited={"limitResponse": {"type": "Queue", "queuing": {}}}))
    limited = filled.spec.limited
    assert limited is not None
    queuing = limited.limit_response.queuing
    assert queuing is not None
    assert (limited.nominal_concurrency_shares, limited.lendable_percent) == (30, 0)
    assert (queuing.queues, queuing.hand_size, queuing.queue_length_limit) == (64, 8, 50)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"matchingPrecedence": -1}, "must be a positive value"),
        ({"matchingPrecedence": 10_001}, "must not be greater than 10000"),
        ({"matchingPrecedence": 1}, "only the schema named 'exempt' may have matchingPrecedence 1"),
        ({"distinguisherMethod": {"type": "ByHat"}}, 'supported values: "ByNamespace", "ByUser"'),
        ({"priorityLevelConfiguration": {"name": ""}}, "must reference a priority level"),
        ({"rules": [{"subjects": [], "nonResourceRules": [{}]}]}, "subjects must contain at least one value"),
        ({"rules": [{"subjects": [{}]}]}, "at least one of resourceRules and nonResourceRules has to be non-empty"),
    ],
)
def test_schemas_without_meaning_are_refused(spec: dict[str, Any], problem: str) -> None:
    assert [problem in str(error) for error in validate_flow_schema(schema(**spec))] == [True]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"type": "Some"}, 'supported values: "Exempt", "Limited"'),
        ({"type": "Limited"}, "must not be empty when type is Limited"),
        (
            {"type": "Exempt", "limited": {"limitResponse": {"type": "Reject"}}},
            "must be nil if the type is not Limited",
        ),
        ({"type": "Limited", "limited": {"limitResponse": {"type": "Queue"}}}, "must not be empty if"),
        ({"type": "Limited", "limited": {"limitResponse": {"type": "Reject", "queuing": {}}}}, "must be nil if"),
        ({"type": "Limited", "limited": {"limitResponse": {"type": "X"}}}, 'supported values: "Queue", "Reject"'),
        ({"type": "Limited", "limited": {"lendablePercent": 101, "limitResponse": {"type": "Reject"}}}, "between 0"),
    ],
)
def test_levels_without_meaning_are_refused(spec: dict[str, Any], problem: str) -> None:
    assert [problem in str(error) for error in validate_priority_level(level(**spec))] == [True]


def test_columns_are_those_of_kubernetes() -> None:
    assert flow_schema_cells(schema(), 0.0)[:4] == ["s", "l", 5, "<none>"]
    limited = level(type="Limited", limited={"nominalConcurrencyShares": 7, "limitResponse": {"type": "Reject"}})
    assert priority_level_cells(limited, 0.0)[:6] == ["l", "Limited", 7, "<none>", "<none>", "<none>"]
