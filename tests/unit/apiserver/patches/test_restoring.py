"""Why a patched map is no object, in the words of Kubernetes' converter."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.decoding.gotypes import go_type_of
from cathedra.api.scheme import GroupVersionKind
from cathedra.apiserver.patches.restoring import unrestorable

POD = go_type_of(GroupVersionKind("", "v1", "Pod"))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"metadata": {"labels": {"a": "b"}}, "spec": {"priority": 3}}, ""),
        ({"metadata": "x"}, "cannot restore struct from: string"),
        ({"metadata": {"labels": []}}, "cannot restore map from slice"),
        ({"metadata": {"labels": {"a": 5}}}, "cannot convert int64 to string"),
        ({"metadata": {"labels": {"a": True}}}, "unrecognized type: string"),
        ({"spec": {"containers": {}}}, "cannot restore slice from map"),
        ({"spec": {"hostNetwork": "yes"}}, "unrecognized type: bool"),
        ({"spec": {"priority": "high"}}, "unrecognized type: int32"),
        ({"spec": {"priority": 1.5}}, "cannot convert float64 to int32"),
        ({"spec": {"containers": [{"resources": {"limits": {"cpu": []}}}]}}, ""),
    ],
)
def test_the_first_misfit_is_told(value: dict[str, Any], why: str) -> None:
    """Values with a decoder of their own (the last case) are JSON's business."""
    assert unrestorable(value, POD) == why
