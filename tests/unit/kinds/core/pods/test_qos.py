"""The quality of service class of pods."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.kinds.core.pods.qos import qos_class
from tests.unit.kinds.objects import pod

BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "wanted"),
    [
        ([{}], "BestEffort"),
        ([{"resources": {"requests": {"example.com/x": "1"}}}], "BestEffort"),
        ([{"resources": {"requests": {"cpu": "0"}}}], "BestEffort"),
        ([{"resources": {"requests": {"cpu": "1"}}}], "Burstable"),
        ([{"resources": {"requests": BOTH, "limits": BOTH}}], "Guaranteed"),
        ([{"resources": {"requests": BOTH, "limits": BOTH}}, {}], "Burstable"),
        ([{"resources": {"requests": {**BOTH, "cpu": "500m"}, "limits": BOTH}}], "Burstable"),
    ],
)
def test_a_class_follows_from_cpu_and_memory_of_all_containers(containers: list[dict[str, Any]], wanted: str) -> None:
    assert qos_class(pod(*containers).spec) == wanted
