"""Objects as rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.api.struct import encode, from_dict
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.http.answers.tables import check_include, columns, partial, row, table
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call
from tests.unit.kinds.objects import NOW, definition_of

PODS = definition_of("pods")
CALL = Call.on(PODS, PODS.versions[0], user=UserInfo("ada"), verb="list")


def stored(phase: str = "Running") -> StoredObject:
    values = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "n1"}, "status": {"phase": phase}}
    return StoredObject("n/p", from_dict(Pod, values), 5)


def shown(include: str, phase: str = "Running") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(row(CALL, stored(phase), include, NOW, "v1")))
    return found


def test_a_row_has_a_cell_for_each_column() -> None:
    made = shown("None")
    assert len(made["cells"]) == len(columns(CALL))
    assert made["cells"][0] == "p"
    assert [column["name"] for column in columns(CALL)][:3] == ["Name", "Ready", "Status"]


def test_the_object_is_shown_as_far_as_the_client_wants_it() -> None:
    assert shown("None")["object"] is None
    metadata = shown("Metadata")["object"]
    assert (metadata["kind"], metadata["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert "spec" not in metadata
    whole = shown("Object")["object"]
    assert (whole["kind"], whole["apiVersion"], whole["spec"]["nodeName"]) == ("Pod", "v1", "n1")


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("Running", None),
        ("Succeeded", "The pod has completed successfully."),
        ("Failed", "The pod failed."),
    ],
)
def test_a_pod_that_has_ended_says_so_in_its_row(phase: str, message: str | None) -> None:
    wanted = {"type": "Completed", "status": "True", "reason": phase, "message": message}
    assert shown("None", phase).get("conditions") == (None if message is None else [wanted])


def test_columns_are_said_once_in_a_watch() -> None:
    first, next_ = (json.loads(table(CALL, [], {}, with_columns=one)) for one in (True, False))
    assert first["columnDefinitions"] == columns(CALL)
    assert next_["columnDefinitions"] is None
    assert (first["kind"], first["rows"]) == ("Table", [])


def test_metadata_alone_carries_the_version_that_was_asked_for() -> None:
    assert partial(stored(), CALL, "v1beta1")["apiVersion"] == "meta.k8s.io/v1beta1"


@pytest.mark.parametrize(("include", "meant"), [("", "Metadata"), ("None", "None"), ("Object", "Object")])
def test_metadata_is_what_is_included_unless_the_client_says_otherwise(include: str, meant: str) -> None:
    assert check_include(include) == meant


def test_nothing_else_can_be_included() -> None:
    with pytest.raises(StatusError, match='includeObject: Invalid value: "Some"') as refused:
        check_include("Some")
    assert refused.value.code == 400
