"""Rules of volumes that are made of files."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.validation.files import validate_files
from tests.unit.kinds.objects import texts

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
