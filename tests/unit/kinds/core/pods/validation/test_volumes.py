"""Rules of volumes and mounts."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.validation._volumes import (
    ENVIRONMENT_FIELDS,
    VOLUME_FIELDS,
    validate_descending_path,
    validate_field_reference,
    validate_files,
    validate_mounts,
    validate_resource_reference,
    validate_volumes,
)
from tests.costs import costs_less_than
from tests.unit.kinds.objects import context, created, definition_of, pod, texts


def volumes(*given: dict[str, Any]) -> tuple[frozenset[str], list[str]]:
    errors = ErrorList()
    made = [from_dict(core_v1.Volume, one) for one in given]
    return validate_volumes(errors, FieldPath("v"), made), texts(errors)


def mounts(*given: dict[str, Any]) -> list[str]:
    errors = ErrorList()
    container = from_dict(core_v1.Container, {"name": "c", "volumeMounts": list(given)})
    validate_mounts(errors, FieldPath("m"), container, {"v"})
    return texts(errors)


def test_good_volumes_may_be_mounted() -> None:
    assert volumes({"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}) == ({"a", "b"}, [])


@pytest.mark.parametrize(
    ("volume", "wanted"),
    [
        ({"name": "a"}, "v[0]: Required value: must specify a volume type"),
        ({"emptyDir": {}}, "v[0].name: Required value"),
        (
            {"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}},
            "may not specify more than 1 volume type",
        ),
        ({"name": "a", "hostPath": {"path": ""}}, "v[0].hostPath.path: Required value"),
        ({"name": "a", "secret": {}}, "v[0].secret.secretName: Required value"),
        ({"name": "a", "configMap": {}}, "v[0].configMap.name: Required value"),
    ],
)
def test_a_volume_has_a_name_and_one_source_with_what_that_needs(volume: dict[str, Any], wanted: str) -> None:
    (found,) = volumes(volume)[1]
    assert wanted in found


def test_a_volume_with_a_wrong_name_cannot_be_mounted() -> None:
    names, problems = volumes({"name": "A_b", "emptyDir": {}}, {"name": "a", "emptyDir": {}})
    assert names == {"a"}
    assert len(problems) == 1


def test_two_volumes_of_one_name_are_one_too_many() -> None:
    names, problems = volumes({"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}})
    assert (names, problems) == ({"a"}, ['v[1].name: Duplicate value: "a"'])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([{"name": "v", "mountPath": "/a"}], []),
        ([{"name": "x", "mountPath": "/a"}], ['m[0].name: Not found: "x"']),
        ([{"mountPath": "/a"}], ["m[0].name: Required value", 'm[0].name: Not found: ""']),
        ([{"name": "v"}], ["m[0].mountPath: Required value"]),
        (
            [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}],
            ['m[1].mountPath: Invalid value: "/a": must be unique'],
        ),
        (
            [{"name": "v", "mountPath": "/a", "subPath": "b", "subPathExpr": "c"}],
            ['m[0].subPathExpr: Invalid value: "c": subPathExpr and subPath are mutually exclusive'],
        ),
        (
            [{"name": "v", "mountPath": "/a", "subPath": "/b"}],
            ['m.subPath: Invalid value: "/b": must be a relative path'],
        ),
        (
            [{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
            [
                "m.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged "
                "containers"
            ],
        ),
        (
            [{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}],
            ["m.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"],
        ),
    ],
)
def test_a_mount_is_of_a_volume_and_has_a_place_of_its_own(given: list[dict[str, Any]], wanted: list[str]) -> None:
    assert mounts(*given) == wanted


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("a/b..c/..d", []),
        ("/a", ['p: Invalid value: "/a": must be a relative path']),
        ("a/../../b", ["p: Invalid value: \"a/../../b\": must not contain '..'"]),
    ],
)
def test_a_path_leads_down(path: str, wanted: list[str]) -> None:
    errors = ErrorList()
    validate_descending_path(errors, FieldPath("p"), path)
    assert texts(errors) == wanted


UNKNOWN = "error converting fieldPath: field label not supported"


def problems(name: str, allowed: tuple[str, ...] = ENVIRONMENT_FIELDS) -> list[str]:
    errors = ErrorList()
    reference = from_dict(core_v1.ObjectFieldSelector, {"fieldPath": name})
    validate_field_reference(errors, FieldPath("f"), reference, allowed)
    return texts(errors)


@pytest.mark.parametrize(
    "name", [*ENVIRONMENT_FIELDS, "spec.host", "metadata.labels['a/b']", "metadata.annotations['A/b']"]
)
def test_fields_that_pods_have_may_be_asked_for(name: str) -> None:
    assert problems(name) == []


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("", "f.fieldPath: Required value"),
        ("spec.x", f'f.fieldPath: Invalid value: "spec.x": {UNKNOWN}: spec.x'),
        ("metadata.labels", 'f.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name"'),
        ("status.phase", 'f.fieldPath: Unsupported value: "status.phase": supported values: "metadata.name"'),
        (
            "spec.x['a']",
            "f.fieldPath: Invalid value: \"spec.x['a']\": error converting fieldPath: field label does not support "
            "subscript: spec.x['a']",
        ),
        ("metadata.labels['a b']", 'f: Invalid value: "a b": name part must consist of'),
        ("metadata.annotations['A b']", 'f: Invalid value: "a b": name part must consist of'),
    ],
)
def test_others_are_refused(name: str, wanted: str) -> None:
    (text,) = problems(name)
    assert text.startswith(wanted)


def test_fields_have_names_in_one_version() -> None:
    errors = ErrorList()
    reference = from_dict(core_v1.ObjectFieldSelector, {"fieldPath": "metadata.name", "apiVersion": "v2"})
    validate_field_reference(errors, FieldPath("f"), reference, ENVIRONMENT_FIELDS)
    assert texts(errors) == [
        'f.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2'
    ]


def test_a_volume_may_hold_all_labels_and_nothing_of_the_spec() -> None:
    assert problems("metadata.labels", VOLUME_FIELDS) == []
    assert problems("spec.nodeName", VOLUME_FIELDS)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("limits.cpu", []),
        ("requests.hugepages-2Mi", []),
        ("", ["f.resource: Required value"]),
        (
            "cpu",
            [
                'f.resource: Unsupported value: "cpu": supported values: "limits.cpu", "limits.ephemeral-storage", '
                '"limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"'
            ],
        ),
    ],
)
def test_resources_are_limits_or_requests(name: str, wanted: list[str]) -> None:
    errors = ErrorList()
    validate_resource_reference(errors, FieldPath("f"), from_dict(core_v1.ResourceFieldSelector, {"resource": name}))
    assert texts(errors) == wanted


def test_a_container_is_told_nothing_that_does_not_exist() -> None:
    env: list[dict[str, Any]] = [
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "no"}}},
        {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "no"}}},
    ]
    found = texts(created(definition_of("pods").strategy, pod({"env": env}), context())[1])
    assert [text.partition(":")[0] for text in found] == [
        "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
        "spec.containers[0].env[1].valueFrom.resourceFieldRef.resource",
    ]


def test_a_long_field_is_read_in_one_pass() -> None:
    """A pattern would look for the end once for each of the million beginnings."""
    with costs_less_than(2):
        (text,) = problems("a" + "['" * 500_000)
    assert UNKNOWN in text


@pytest.mark.parametrize("name", ["metadata.labels['']", "metadata.labels[']", "['a']", "metadata.labels"])
def test_what_has_no_key_or_no_field_is_no_subscript(name: str) -> None:
    assert problems(name) != []


MODE = "must be a number between 0 and 0777 (octal), both inclusive"
FIELDS = '"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"'
UNITS = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
NAME = {"path": "name", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}


def said(**source: Any) -> list[str]:
    errors = ErrorList()
    validate_files(errors, FieldPath("v"), from_dict(core_v1.Volume, {"name": "v", **source}))
    return texts(errors)


def projected(*sources: dict[str, Any]) -> list[str]:
    return said(projected={"sources": list(sources)})


def test_good_files_are_taken() -> None:
    assert not said(secret={"secretName": "s", "defaultMode": 0o400, "items": [{"key": "k", "path": "a/b"}]})
    assert not said(downwardAPI={"items": [NAME], "defaultMode": 0})
    assert not projected(
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "root", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [NAME]}},
    )


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        ({"path": "p"}, ["v.secret.items[0].key: Required value"]),
        ({"key": "k"}, ["v.secret.items[0].path: Required value"]),
        ({"key": "k", "path": "/p"}, ['v.secret.items[0].path: Invalid value: "/p": must be a relative path']),
        ({"key": "k", "path": "a/.."}, ["v.secret.items[0].path: Invalid value: \"a/..\": must not contain '..'"]),
        ({"key": "k", "path": "..p"}, ["v.secret.items[0].path: Invalid value: \"..p\": must not start with '..'"]),
        ({"key": "k", "path": "p", "mode": 512}, [f"v.secret.items[0].mode: Invalid value: 512: {MODE}"]),
    ],
)
def test_keys_have_a_path_below_the_volume(item: dict[str, Any], wanted: list[str]) -> None:
    assert said(secret={"secretName": "s", "items": [item]}) == wanted


@pytest.mark.parametrize("source", ["secret", "configMap", "downwardAPI", "projected"])
def test_modes_are_permissions(source: str) -> None:
    assert said(**{source: {"defaultMode": 0o1000}}) == [f"v.{source}.defaultMode: Invalid value: 512: {MODE}"]


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ({"path": "p"}, "v.downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"),
        (NAME | {"path": ""}, "v.downwardAPI.path: Required value"),
        (
            NAME | {"resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}},
            'v.downwardAPI: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified '
            "simultaneously",
        ),
        (
            {"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}},
            f'v.downwardAPI.fieldRef.fieldPath: Unsupported value: "status.podIP": supported values: {FIELDS}',
        ),
        (
            {"path": "p", "resourceFieldRef": {"resource": "limits.cpu"}},
            "v.downwardAPI.resourceFieldRef.containerName: Required value",
        ),
        (
            {"path": "p", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "2"}},
            'v.downwardAPI.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor\'s values 1m and 1 are '
            "supported with the cpu resource",
        ),
        (
            {"path": "p", "resourceFieldRef": {"containerName": "c", "resource": "requests.memory", "divisor": "3"}},
            'v.downwardAPI.resourceFieldRef.divisor: Invalid value: "requests.memory": only divisor\'s values '
            f"{UNITS} are supported with the memory resource",
        ),
        (
            {
                "path": "p",
                "resourceFieldRef": {"containerName": "c", "resource": "limits.ephemeral-storage", "divisor": "3"},
            },
            'v.downwardAPI.resourceFieldRef.divisor: Invalid value: "limits.ephemeral-storage": only divisor\'s values '
            f"{UNITS} are supported with the local ephemeral storage resource",
        ),
    ],
)
def test_each_file_tells_one_thing(file: dict[str, Any], wanted: str) -> None:
    assert said(downwardAPI={"items": [file]}) == [wanted]


@pytest.mark.parametrize(
    ("sources", "wanted"),
    [
        ([{"secret": {}}], ["v.projected.sources[0].secret.name: Required value"]),
        (
            [{"secret": {"name": "s"}, "configMap": {"name": "c"}}],
            ["v.projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"],
        ),
        (
            [
                {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
                {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
            ],
            ['v.projected: Invalid value: "s": conflicting duplicate paths'],
        ),
        (
            [{"downwardAPI": {"items": [NAME, NAME]}}],
            ['v.projected: Invalid value: "name": conflicting duplicate paths'],
        ),
        ([{"serviceAccountToken": {"expirationSeconds": 3600}}], ["v.projected.path: Required value"]),
        (
            [{"serviceAccountToken": {"expirationSeconds": 599, "path": "/t"}}],
            [
                "v.projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a "
                "duration less than 10 minutes",
                'v.projected.path: Invalid value: "/t": must be a relative path',
            ],
        ),
        (
            [{"serviceAccountToken": {"expirationSeconds": 2**32 + 1, "path": "t"}}],
            [
                "v.projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not "
                "specify a duration larger than 2^32 seconds"
            ],
        ),
    ],
)
def test_sources_share_a_volume(sources: list[dict[str, Any]], wanted: list[str]) -> None:
    assert projected(*sources) == wanted


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({"emptyDir": {"sizeLimit": "-1"}}, "v[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid"),
        ({"hostPath": {"path": "../x"}}, "v[0].hostPath.path: Invalid value: \"../x\": must not contain '..'"),
    ],
)
def test_sizes_and_paths_of_volumes_are_checked(source: dict[str, Any], wanted: str) -> None:
    (found,) = volumes({"name": "a", **source})[1]
    assert found.startswith(wanted)
