"""What a rule's condition says."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.controllers.devicetaints.rulestatus import dry_run, progress


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (progress("NoExecute", 3, 2, 0), "3 pods need to be evicted in 2 different namespaces."),
        (progress("NoExecute", 0, 0, 0), ""),
        (progress("NoSchedule", 0, 0, 0), "Eviction only happens for the NoExecute effect."),
    ],
)
def test_conditions_are_worded_as_kubernetes_does(made: Any, expected: str) -> None:
    assert made.message == expected
    assert dry_run(1, 1, 2, 3, 0).message.startswith(
        "1 published device selected. 1 allocated device selected. 2 pods would be evicted in 3 different namespaces if"
    )
