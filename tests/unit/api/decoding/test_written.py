"""Items of JSON Lists, decoded straight from their bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.decoding import decode_values, decode_written, written_items
from cathedra.api.nesting import MAX_DEPTH
from cathedra.api.scheme import GroupVersionKind

POD = GroupVersionKind("", "v1", "Pod")


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "labels": {"spec": "x"}}, "spec": {"containers": [{"name": "c"}], **spec}}


def body_of(*items: Any, kind: str = "PodList") -> bytes:
    return json.dumps({"kind": kind, "apiVersion": "v1", "items": items}).encode()


def test_an_item_without_a_kind_has_that_of_its_list() -> None:
    """Clients in Go leave both fields out within typed lists."""
    (found,) = written_items(body_of(pod())) or ()
    assert (found["kind"], found["apiVersion"], found["metadata"]["name"]) == ("Pod", "v1", "p")
    assert dict(found) == {"kind": "Pod", "apiVersion": "v1", **pod()}
    assert len(found) == len(list(found)) == 4


def test_an_item_decodes_as_its_values_do() -> None:
    """Values and bytes take different ways to the same struct."""
    (found,) = written_items(body_of(pod(nodeName="n", overhead={"cpu": "1"}))) or ()
    assert decode_written(Pod, POD, found.body) == decode_values(Pod, POD, dict(found))


@pytest.mark.parametrize(
    "spec", [{"unheard": 1}, {"tolerations": None}, {"containers": [{"name": "c", "nme": 1}]}, {"nodeName": 5}]
)
def test_unknown_fields_nulls_and_wrong_types_are_left_to_the_reader(spec: dict[str, Any]) -> None:
    """It names the field; the fast way would lose it."""
    (found,) = written_items(body_of(pod(**spec))) or ()
    assert decode_written(Pod, POD, found.body) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"PodList","items":[{"metadata":{"name":"\xff"}}]}',
        b'{"kind":"PodList","items":[{]}',
        b'{"kind":"PodList","items":[5]}',
        b'{"kind":"PodList","items":5}',
        b'{"kind":"PodList","items":[]}',
        b'{"kind":"Pod","items":[{}]}',
        b'{"kind":"List","items":[{}]}',
        body_of({"kind": "PodList", "items": []}),
        b'{"kind":"PodList","items":[{"a":' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}]}",
        b'{"kind":"PodList","items":' + b"[" * 100_000,
    ],
)
def test_everything_else_is_read_value_by_value(body: bytes) -> None:
    """The general reader has the errors, and takes lists within lists apart."""
    assert written_items(body) is None


def test_a_number_beyond_all_floats_does_not_end_the_reading() -> None:
    """Fields that no release knows are noted, whatever they hold."""
    (found,) = written_items(b'{"kind":"PodList","apiVersion":"v1","items":[{"huge":1e999}]}') or ()
    assert found["huge"] == float("inf")


@pytest.mark.parametrize(
    "item",
    [
        b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}',
        b'{\n  "apiVersion":"v1",\n  "kind":"Pod"}',
        b'{"kind": "Pod", "apiVersion": "v1"}',
        b'{"metadata": {"name": "a"}, "kind": "Pod", "apiVersion": "v1"}',
        b'{"apiVersion": "v\\u0031", "kind": "Pod"}',
    ],
)
def test_kind_and_version_of_an_item_are_found_wherever_they_stand(item: bytes) -> None:
    items = written_items(b'{"kind": "List", "apiVersion": "v1", "items": [%s]}' % item)
    assert items is not None
    assert [(one.kind, one.api_version) for one in items] == [("Pod", "v1")]
