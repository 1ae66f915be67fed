"""The shape of an object as patches and server-side apply need it."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apps_v1 import Deployment
from cathedra.api.core.core_v1 import ConfigMap, PersistentVolume, Pod, Service
from cathedra.api.resource import ResourceClaim
from cathedra.apiserver.patches.schema import (
    ANYTHING,
    BOOLEAN,
    NUMERIC,
    STRING,
    Leaf,
    ListShape,
    MapShape,
    Shape,
    StructShape,
    struct_shape,
    without_nulls,
)


def at(shape: Shape, *path: str) -> Shape:
    """The shape of a field; "*" stands for the elements of a list or map."""
    for name in path:
        if isinstance(shape, ListShape):
            shape = shape.element
        elif isinstance(shape, MapShape):
            shape = shape.value
        else:
            assert not isinstance(shape, Leaf)
            shape = shape.fields[name]
    return shape


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        (("spec", "nodeName"), STRING),
        (("spec", "priority"), NUMERIC),
        (("spec", "hostNetwork"), BOOLEAN),
        (("spec", "containers", "*", "resources", "limits", "*"), Leaf()),
        (("metadata", "creationTimestamp"), Leaf()),
    ],
)
def test_scalars_say_what_they_must_be_and_quantities_and_times_take_any(path: tuple[str, ...], shape: Shape) -> None:
    assert at(struct_shape(Pod), *path) == shape


def test_lists_say_how_they_merge_in_patches_and_in_apply() -> None:
    containers = at(struct_shape(Pod), "spec", "containers")
    assert isinstance(containers, ListShape)
    assert (containers.merges, containers.merge_key) == (True, "name")
    assert (containers.list_type, containers.keys, containers.defaults) == ("map", ("name",), (("name", ""),))
    finalizers = at(struct_shape(Pod), "metadata", "finalizers")
    assert isinstance(finalizers, ListShape)
    assert (finalizers.list_type, finalizers.merges, finalizers.merge_key) == ("set", True, "")
    args = at(struct_shape(Pod), "spec", "containers", "*", "args")
    assert isinstance(args, ListShape)
    assert (args.list_type, args.merges) == ("atomic", False)


def test_a_key_that_is_left_out_has_its_default() -> None:
    ports = at(struct_shape(Service), "spec", "ports")
    assert isinstance(ports, ListShape)
    assert ports.keys == ("port", "protocol")
    assert dict(ports.defaults)["protocol"] == "TCP"


def test_maps_merge_by_key_unless_they_are_one_piece() -> None:
    labels = at(struct_shape(Pod), "metadata", "labels")
    assert isinstance(labels, MapShape)
    assert (labels.atomic, labels.value) == (False, STRING)
    selector = at(struct_shape(Pod), "spec", "nodeSelector")
    assert isinstance(selector, MapShape)
    assert selector.atomic


def test_some_structs_are_one_piece() -> None:
    selector = at(struct_shape(Deployment), "spec", "selector")
    assert isinstance(selector, StructShape)
    assert selector.atomic
    template = at(struct_shape(Deployment), "spec", "template")
    assert isinstance(template, StructShape)
    assert not template.atomic


def test_a_type_has_one_shape_however_it_is_reached() -> None:
    assert struct_shape(Pod) is struct_shape(Pod)
    assert at(struct_shape(Pod), "spec") is at(struct_shape(Deployment), "spec", "template", "spec")


def test_what_only_a_driver_understands_is_anything() -> None:
    parameters = at(struct_shape(ResourceClaim), "spec", "devices", "config", "*", "opaque", "parameters")
    assert parameters == ANYTHING


@pytest.mark.parametrize(
    ("kind", "value", "left"),
    [
        (Pod, {"metadata": {"name": "p", "labels": None}, "spec": None}, {"metadata": {"name": "p"}}),
        (Pod, {"spec": {"containers": [{"name": "c", "image": None}]}}, {"spec": {"containers": [{"name": "c"}]}}),
        (ConfigMap, {"data": {"a": None}}, {"data": {"a": None}}),
        (Pod, {"spec": "no object"}, {"spec": "no object"}),
        (Pod, {"unknown": {"a": None}, "other": None}, {"unknown": {"a": None}}),
    ],
)
def test_a_field_that_is_null_is_absent_and_a_value_that_is_null_is_not(kind: Any, value: Any, left: Any) -> None:
    assert without_nulls(value, struct_shape(kind)) == left


def test_nulls_in_what_is_opaque_are_kept() -> None:
    opaque = {"opaque": {"driver": "d", "parameters": {"a": None}}}
    value = {"spec": {"devices": {"config": [opaque]}}}
    assert without_nulls(value, struct_shape(ResourceClaim)) == value


def test_the_marker_of_a_field_overrides_that_of_its_type() -> None:
    claim_reference = at(struct_shape(PersistentVolume), "spec", "claimRef")
    assert isinstance(claim_reference, StructShape)
    assert not claim_reference.atomic
