"""Deployments."""

from __future__ import annotations

from cathedra.api.core import apps_v1
from cathedra.api.struct import to_dict
from tests.unit.kinds.objects import defaulted, problems_of

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


def test_a_deployment_rolls_a_quarter_at_a_time() -> None:
    made = to_dict(defaulted("deployments", apps_v1.Deployment()))
    assert made["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert made["spec"]["replicas"] == 1


def test_a_deployment_cannot_stand_still() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}
    assert problems_of("deployments", apps_v1.Deployment, {"spec": {**SELECTED, "strategy": strategy}}) == [
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0'
    ]
