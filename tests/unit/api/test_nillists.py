"""Empty lists are null in JSON where Go has no omitempty."""

from __future__ import annotations

import json

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.discovery_v1 import EndpointSlice
from cathedra.api.core.rbac_v1 import ClusterRole
from cathedra.api.core.storage_v1 import CSINode
from cathedra.api.nillists import with_nil_lists, with_nil_lists_in
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct

POD = {"spec": {"containers": [{"name": "c", "args": []}], "volumes": [{"name": "v", "projected": {"sources": []}}]}}


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (ClusterRole, {"rules": []}, {"rules": None}),
        (ClusterRole, {"rules": [{"verbs": []}]}, {"rules": [{"verbs": None}]}),
        (EndpointSlice, {"endpoints": [], "ports": []}, {"endpoints": None, "ports": None}),
        (CSINode, {"spec": {"drivers": []}}, {"spec": {"drivers": None}}),
        (
            Pod,
            POD,
            {"spec": {**POD["spec"], "volumes": [{"name": "v", "projected": {"sources": None}}]}},
        ),
    ],
)
def test_an_empty_list_without_omitempty_is_null(kind: type[KubeStruct], value: object, shown: object) -> None:
    assert json.loads(with_nil_lists(kind, json.dumps(value, separators=(",", ":")).encode())) == shown


def test_opaque_json_is_left_alone() -> None:
    opaque = {"driver": "d", "parameters": {"requests": [], "rules": []}}
    value = {"spec": {"devices": {"requests": [], "config": [{"opaque": opaque}]}}}
    shown = with_nil_lists_in(ResourceClaim, value)
    assert shown == {"spec": {"devices": {"requests": None, "config": [{"opaque": opaque}]}}}


def test_a_body_without_such_lists_is_the_same_object() -> None:
    for body in (b'{"rules":[{"verbs":["get"]}]}', b'{"rules":[{"verbs":["get"],"resources":[]}]}'):
        assert with_nil_lists(ClusterRole, body) is body


def test_the_given_values_are_not_changed() -> None:
    value = {"spec": {"drivers": []}}
    assert with_nil_lists_in(CSINode, value) != value
    assert value == {"spec": {"drivers": []}}
