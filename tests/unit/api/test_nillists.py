"""Empty lists are null in JSON where Go has no omitempty."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest

from cathedra.api import core
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.discovery_v1 import EndpointSlice
from cathedra.api.core.rbac_v1 import ClusterRole
from cathedra.api.core.storage_v1 import CSINode
from cathedra.api.nillists import with_nil_lists, with_nil_lists_in
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct, to_dict
from cathedra.api.typeinfo import info_of

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


def test_every_absent_list_or_pointer_of_a_built_in_type_is_null_exactly_where_go_has_no_omitempty() -> None:
    for module in pkgutil.iter_modules(core.__path__):
        importlib.import_module(f"{core.__name__}.{module.name}")
    wrong, lists = [], 0
    for kind in _structs(KubeStruct):
        info = info_of(kind)
        if info is None or info.alias:
            continue
        required = {field.name: None for field in msgspec.structs.fields(kind) if field.required}
        body = with_nil_lists_in(kind, to_dict(kind(**required)))
        for field in info.fields.values():
            if field.name == "-" or field.embedded or not field.go.startswith(("[]", "map[", "*")):
                continue
            shown = body.get(field.name, "nothing")
            # Bytes are required in both types, so kube-apiserver stores none without them.
            if shown != ("nothing" if field.omitempty else None) and field.go != "[]byte":
                wrong.append(f"{info.package} {info.name}.{field.name} is {shown!r}")
            lists += not field.omitempty
    assert not wrong
    assert lists > 190


def _structs(kind: type[KubeStruct]) -> Iterator[type[KubeStruct]]:
    for one in kind.__subclasses__():
        yield one
        yield from _structs(one)


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
