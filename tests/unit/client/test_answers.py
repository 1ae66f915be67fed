"""Decoding of answers; what a whole transport makes of them is in `test_http` and `test_nulls`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.client.answers import ReceivedObjects, event_of, list_item_by_item, meta_of, refusal_of
from cathedra.client.resources import PODS
from cathedra.client.transport import EventType, MalformedAnswer
from tests.requirements import with_memos

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7"}}


def line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_line_is_an_event_with_its_object(kind: str) -> None:
    event = event_of(PODS, line(kind, POD), ReceivedObjects())
    assert (event.type.value, event.object.metadata.name) == (kind, "p")


@pytest.mark.parametrize("kind", ["BOOKMARK", "SOMETHING_NEW"])
def test_a_line_without_a_change_carries_the_resource_version_alone(kind: str) -> None:
    event = event_of(PODS, line(kind, POD), ReceivedObjects())
    assert (event.type, event.object.metadata.resource_version) == (EventType.BOOKMARK, "7")


def test_an_error_in_a_watch_is_raised_and_other_lines_are_malformed() -> None:
    status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}
    with pytest.raises(StatusError, match="too old") as ended:
        event_of(PODS, line("ERROR", status), ReceivedObjects())
    assert ended.value.is_expired
    with pytest.raises(MalformedAnswer, match="a line of a watch is no event"):
        event_of(PODS, b"<html>", ReceivedObjects())


@with_memos
def test_an_object_that_was_decoded_lately_is_the_same_object() -> None:
    received, body = ReceivedObjects(), json.dumps(POD).encode()
    assert received.read(Pod, body) is received.read(Pod, body)


def test_null_metadata_of_a_list_are_empty_ones() -> None:
    metadata, items, undecodable = list_item_by_item(Pod, b'{"metadata":null,"items":null}')
    assert (metadata.resource_version, items, undecodable) == ("", [], ())


def test_an_item_that_cannot_be_decoded_is_reported_beside_the_others() -> None:
    bad = {"metadata": {"name": "bad"}, "spec": {"volumes": [{"name": 5}]}}
    body = json.dumps({"metadata": {"resourceVersion": "12"}, "items": [POD, bad]}).encode()
    metadata, items, undecodable = list_item_by_item(Pod, body)
    assert (metadata.resource_version, [pod.metadata.name for pod in items]) == ("12", ["p"])
    assert [what.name for what in undecodable] == ["bad"]


@pytest.mark.parametrize(
    ("code", "body", "reason", "message"),
    [
        (403, b'{"status": "Failure", "reason": "Forbidden", "code": 403, "message": "no"}', "Forbidden", "no"),
        (403, b"no", "Forbidden", "no"),
        (599, b"", "", "Unknown"),
    ],
)
def test_a_refusal_is_its_status_or_its_text(code: int, body: bytes, reason: str, message: str) -> None:
    refusal = refusal_of(code, body)
    assert (refusal.code, refusal.reason, str(refusal)) == (code, reason, message)


def test_an_answer_may_have_no_kind() -> None:
    assert meta_of(b'{"kind": "Status"}').kind == "Status"
    assert meta_of(b"[]").kind == ""
