"""Rules of object metadata (docs/spec/apimachinery.md §4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.formats import dns_subdomain
from cathedra.api.struct import from_dict
from cathedra.kinds.metadata import (
    MAX_ANNOTATIONS,
    validate_changed_metadata,
    validate_new_metadata,
    validate_path_name,
)
from cathedra.releases import FeatureGates
from cathedra.remembering import forget
from tests.unit.kinds.objects import definition_of, texts

GATES = FeatureGates.for_release("1.37")


def meta(**values: Any) -> ObjectMeta:
    return from_dict(ObjectMeta, {"name": "a", "namespace": "default", **values})


def owner(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", **more}


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, []),
        ({"name": ""}, ["metadata.name: Required value: name or generateName is required"]),
        ({"namespace": ""}, ["metadata.namespace: Required value"]),
        ({"generation": -1}, ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        ({"labels": {"a/b/c": "x"}}, ['metadata.labels: Invalid value: "a/b/c": a valid label key must consist of']),
        ({"labels": {"a": "x y"}}, ['metadata.labels: Invalid value: "x y": a valid label must be an empty string or']),
        (
            {"annotations": {"a": "x" * MAX_ANNOTATIONS}},
            ["metadata.annotations: Too long: may not be more than"],
        ),
        (
            {"finalizers": ["mine"]},
            ['metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it'],
        ),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            ['metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foreground'],
        ),
        ({"ownerReferences": [owner(uid="")]}, ["metadata.ownerReferences[0].uid: Required value: must not be empty"]),
        (
            {"ownerReferences": [owner(), owner(apiVersion="a/b/c", kind="")]},
            [
                'metadata.ownerReferences[1].apiVersion: Invalid value: "a/b/c": must be <group>/<version>',
                "metadata.ownerReferences[1].kind: Required value: must not be empty",
            ],
        ),
        (
            {"ownerReferences": [owner(apiVersion="")]},
            ["metadata.ownerReferences[0].apiVersion: Required value: must not be empty"],
        ),
    ],
)
def test_new_metadata_is_checked(values: dict[str, Any], wanted: list[str]) -> None:
    found = texts(validate_new_metadata(definition_of("configmaps"), meta(**values), GATES))
    assert len(found) == len(wanted)
    assert all(text.startswith(beginning) for text, beginning in zip(found, wanted, strict=True)), found


def test_owners_are_not_numbered_until_1_36() -> None:
    gates = FeatureGates.for_release("1.36")
    new = meta(ownerReferences=[owner(apiVersion="", name="")])
    assert texts(validate_new_metadata(definition_of("configmaps"), new, gates)) == [
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
    ]


def test_an_object_has_one_controller() -> None:
    owners = [owner(controller=True), owner(name="q", controller=True)]
    (text,) = texts(validate_new_metadata(definition_of("configmaps"), meta(ownerReferences=owners), GATES))
    assert text.endswith('Found "true" in references for Pod/p and Pod/q')


def test_a_kind_without_namespaces_has_none() -> None:
    (text,) = texts(validate_new_metadata(definition_of("nodes"), meta(), GATES))
    assert text == "metadata.namespace: Forbidden: not allowed on this type"


@pytest.mark.parametrize(("plural", "name", "fine"), [("roles", "system:a/b", False), ("roles", "system:a", True)])
def test_names_follow_the_rule_of_their_kind(plural: str, name: str, fine: bool) -> None:
    assert (not validate_new_metadata(definition_of(plural), meta(name=name), GATES)) is fine


def test_a_prefix_of_a_name_may_end_with_a_dash() -> None:
    assert not validate_new_metadata(definition_of("configmaps"), meta(generateName="a-"), GATES)
    assert len(validate_new_metadata(definition_of("configmaps"), meta(generateName="Ab-"), GATES)) == 1
    assert not validate_new_metadata(definition_of("deviceclasses"), meta(generateName="Ab-", namespace=""), GATES)


def test_every_name_stands_in_a_url() -> None:
    assert texts(validate_path_name(meta(name="a/b"))) == ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]


@given(st.text(alphabet="ab0.-/%", max_size=6))
def test_a_subdomain_stands_in_a_url_without_being_asked(name: str) -> None:
    assert dns_subdomain(name) or not validate_path_name(meta(name=name))


def test_what_a_change_may_not_touch() -> None:
    old = meta(uid="1", generation=3)
    (text,) = set(texts(validate_changed_metadata(meta(uid="2", generation=3), old, GATES, rounds=0)))
    assert text == 'metadata.uid: Invalid value: "2": field is immutable'
    (text,) = set(texts(validate_changed_metadata(meta(uid="1", generation=2), old, GATES, rounds=2)))
    assert text == "metadata.generation: Invalid value: 2: must not be decremented"


def test_an_object_that_is_being_deleted_gets_no_new_finalizers() -> None:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
    new = meta(**{**going, "finalizers": ["a/b", "c/d"]})
    (text,) = set(texts(validate_changed_metadata(new, meta(**going), GATES, rounds=1)))
    assert text.startswith("metadata.finalizers: Forbidden: no new finalizers can be added if the object is")
    assert not validate_changed_metadata(meta(**{**going, "finalizers": []}), meta(**going), GATES, rounds=1)


@pytest.mark.parametrize(
    ("values", "times"),
    [
        ({"labels": {"a": "x y"}}, (2, 3, 4)),
        ({"annotations": {"a/b/c": ""}}, (2, 3, 4)),
        ({"ownerReferences": [owner(uid="")]}, (2, 3, 4)),
        ({"finalizers": ["mine"]}, (0, 1, 2)),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, (0, 1, 2)),
        ({}, (0, 0, 0)),
    ],
)
def test_what_is_wrong_is_told_as_often_as_kubernetes_looks_at_it(
    values: dict[str, Any], times: tuple[int, int, int]
) -> None:
    found = [len(validate_changed_metadata(meta(**values), meta(), GATES, rounds=rounds)) for rounds in range(3)]
    assert tuple(found) == times


KEYS = st.sampled_from(["a", "example.com/A", "Example.com/a", "a/b/c", "-", "mine", "kubernetes", "x" * 64])
TEXTS = st.dictionaries(KEYS, st.sampled_from(["", "x", "x y", "x" * 64, "x" * (MAX_ANNOTATIONS - 20)]), max_size=3)


@given(TEXTS, TEXTS, st.lists(KEYS, max_size=2, unique=True))
def test_what_was_sound_before_changes_nothing_in_what_is_found(
    labels: dict[str, str], annotations: dict[str, str], finalizers: list[str]
) -> None:
    new = meta(labels=labels, annotations=annotations, finalizers=finalizers)
    before = texts(validate_new_metadata(definition_of("pods"), new, GATES))
    forget()
    assert texts(validate_new_metadata(definition_of("pods"), new, GATES)) == before
    assert texts(validate_new_metadata(definition_of("pods"), new, GATES)) == before
