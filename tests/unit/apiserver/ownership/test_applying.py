"""An apply configuration merged into an object without a manager."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.apiserver.ownership.applying import NotApplicable, apply_configuration
from cathedra.apiserver.patches.schema import struct_shape

LIVE = {"metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def applied(configuration: dict[str, Any]) -> dict[str, Any]:
    return apply_configuration(LIVE, configuration, struct_shape(Pod))


def test_what_is_spelled_is_merged_and_the_rest_stays() -> None:
    made = applied({"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"b": "2"}}})
    assert made == {**LIVE, "metadata": {"name": "p", "labels": {"a": "1", "b": "2"}}}


def test_elements_of_lists_are_found_by_their_keys_and_others_are_added() -> None:
    made = applied({"spec": {"containers": [{"name": "c", "tty": True}, {"name": "d", "image": "j"}]}})
    assert made["spec"]["containers"] == [
        {"name": "c", "image": "i", "tty": True},
        {"name": "d", "image": "j"},
    ]


@pytest.mark.parametrize(
    ("configuration", "paths"),
    [
        ({"spec": {"containers": [{"name": "c", "args": ["x"]}]}}, ".spec.containers[0].args"),
        ({"spec": {"nodeSelector": {"a": "b"}}}, ".spec.nodeSelector"),
        (
            {"spec": {"nodeSelector": {}, "containers": [{"name": "c"}, {"name": "d", "command": ["x"]}]}},
            ".spec.nodeSelector, .spec.containers[1].command",
        ),
    ],
)
def test_what_is_one_piece_cannot_be_set_in_part(configuration: dict[str, Any], paths: str) -> None:
    with pytest.raises(NotApplicable) as raised:
        applied(configuration)
    assert str(raised.value).endswith(f"may not mutate atomic arrays, maps or structs: {paths}")


def test_what_does_not_fit_the_kind_is_refused() -> None:
    with pytest.raises(NotApplicable, match="failed to convert patch object to typed object: "):
        applied({"spec": {"nothing": 1}})
    with pytest.raises(NotApplicable, match="errors:\n  "):
        applied({"spec": {"nothing": 1, "hostNetwork": "yes"}})
