"""Defaults of everything that makes pods."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import apps_v1, batch_v1
from tests.unit.kinds.objects import defaulted


@pytest.mark.parametrize(
    ("plural", "kind"),
    [
        ("deployments", apps_v1.Deployment),
        ("replicasets", apps_v1.ReplicaSet),
        ("statefulsets", apps_v1.StatefulSet),
        ("daemonsets", apps_v1.DaemonSet),
        ("jobs", batch_v1.Job),
        ("cronjobs", batch_v1.CronJob),
    ],
)
def test_defaults_of_workloads_are_idempotent(plural: str, kind: Any) -> None:
    once = defaulted(plural, kind())
    assert defaulted(plural, once) == once
    assert once != kind()
