"""Rules of volumes and mounts."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.validation.volumes import validate_mounts, validate_volumes
from tests.unit.kinds.objects import texts


def volumes(*given: dict[str, Any]) -> tuple[frozenset[str], list[str]]:
    errors = ErrorList()
    made = [from_dict(core_v1.Volume, one) for one in given]
    return validate_volumes(errors, FieldPath("v"), made), texts(errors)


def mounts(*given: dict[str, Any]) -> list[str]:
    errors = ErrorList()
    validate_mounts(errors, FieldPath("m"), [from_dict(core_v1.VolumeMount, one) for one in given], {"v"})
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
        ([{"mountPath": "/a"}], ["m[0].name: Required value"]),
        ([{"name": "v"}], ["m[0].mountPath: Required value"]),
        (
            [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}],
            ['m[1].mountPath: Invalid value: "/a": must be unique'],
        ),
        (
            [{"name": "v", "mountPath": "/a", "subPath": "b", "subPathExpr": "c"}],
            ['m[0].subPathExpr: Invalid value: "c": subPathExpr and subPath are mutually exclusive'],
        ),
    ],
)
def test_a_mount_is_of_a_volume_and_has_a_place_of_its_own(given: list[dict[str, Any]], wanted: list[str]) -> None:
    assert mounts(*given) == wanted
