"""The readable part of objects that cannot be decoded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.nesting import WRAPPED_DEPTH, NestingError, check_nesting
from cathedra.api.struct import decode
from cathedra.api.undecodable import (
    FAULTS,
    MOST_BYTES,
    NotAnObject,
    Undecodable,
    cut_at_depth,
    identify,
    is_cut,
    readable,
    rest_of,
)


def undecodable(value: Any) -> Undecodable:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    with pytest.raises(FAULTS) as caught:
        decode(Pod, body)
    return identify(Pod, body, caught.value)


def test_it_is_named_with_the_path_of_its_first_fault() -> None:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "3"}
    found = undecodable({"kind": "Pod", "metadata": metadata, "spec": {"volumes": [{"name": 5}]}})
    assert (found.kind, found.key, found.uid, found.resource_version) == ("Pod", ("ns", "p"), "u", "3")
    assert (found.path, found.problem) == ("spec.volumes[0].name", "Expected `str`, got `int`")
    assert str(found) == "Pod ns/p cannot be decoded: Expected `str`, got `int` at spec.volumes[0].name"


@pytest.mark.parametrize("value", [{"metadata": 3}, {"metadata": {"name": 7}}, {"metadata": [], "kind": 1}])
def test_one_whose_name_cannot_be_read_has_a_key_of_its_own(value: dict[str, Any]) -> None:
    found = undecodable(value)
    assert (found.kind, found.name) == ("Pod", "")
    assert found.key[1].startswith("\0")


@pytest.mark.parametrize("body", [b"null", b"[]", b"<html>", b""])
def test_what_is_no_object_has_no_identity(body: bytes) -> None:
    with pytest.raises(NotAnObject):
        identify(Pod, body, ValueError("no object"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb"\ud83d\ude00 \ud83d \ude00 \uD800x", "\U0001f600 \ufffd \ufffd \ufffdx"),
        (rb"\\ud83d \\\ud83d \" \n", '\\ud83d \\\ufffd " \n'),
        (b"\xff\xc3\xa9", "\ufffd\u00e9"),
    ],
)
def test_texts_are_read_as_go_reads_them(text: bytes, expected: str) -> None:
    assert json.loads(readable(b'["%s"]' % text)) == [expected]


def test_texts_that_are_not_utf8_and_deep_nesting_leave_the_identity_readable() -> None:
    assert undecodable(b'{"metadata": {"name": "p\xff"}, "spec": 1}').name == "p\ufffd"
    deep = b'{"metadata": {"name": "p"}, "x": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    found = undecodable(deep)
    assert (found.name, found.problem) == ("p", "exceeded max depth")
    assert found.values is not None
    assert found.values["metadata"] == {"name": "p"}


def test_the_rest_is_everything_but_the_faulty_values() -> None:
    labels = {"a": 4}
    containers = [{"name": "c", "image": 5, "resources": {"requests": {"cpu": "no quantity"}}}]
    what = undecodable(
        {
            "metadata": {"name": "p", "labels": labels},
            "spec": {"nodeName": "n1", "containers": containers, "volumes": [7, {"name": "v"}]},
        }
    )
    rest, paths = rest_of(Pod, what)
    assert rest is not None
    assert rest.spec.node_name == "n1"
    assert [(one.name, one.image) for one in rest.spec.containers] == [("c", "")]
    assert [one.name for one in rest.spec.volumes] == ["v"]
    assert paths == (
        "metadata.labels[...]",
        "spec.containers[0].image",
        "spec.containers[0].resources.requests[...]",
        "spec.volumes[0]",
    )


def test_of_an_object_with_too_many_faults_the_metadata_are_left() -> None:
    containers = [{"name": number} for number in range(100)]
    rest, paths = rest_of(Pod, undecodable({"metadata": {"name": "p"}, "spec": {"containers": containers}}))
    assert rest is not None
    assert (rest.metadata.name, rest.spec.containers, paths[-1]) == ("p", (), "spec")
    assert rest_of(Pod, undecodable({"metadata": {"name": 3, "labels": 4, "uid": 5}, "spec": 3}))[0] is not None


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")])
def test_what_is_too_deep_is_cut_and_nothing_else(brackets: tuple[bytes, bytes]) -> None:
    opened, closed = brackets
    deep = b'{"text": "[[{\\"", "deep": [' + opened * 500 + b"1" + closed * 500 + b', "after"], "end": 2}'
    cut = cut_at_depth(deep)
    check_nesting(cut, WRAPPED_DEPTH)
    assert is_cut(cut)
    value = json.loads(cut)
    assert (value["text"], value["deep"][1], value["end"]) == ('[[{"', "after", 2)
    with pytest.raises(NestingError):
        check_nesting(deep, WRAPPED_DEPTH)
    assert not is_cut(cut_at_depth(b'{"a": [1]}'))


def test_numbers_that_no_decoder_takes_leave_the_rest_readable() -> None:
    what = undecodable(b'{"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "priority": 1e999}}')
    assert what.values is not None
    assert what.values["spec"]["nodeName"] == "n1"
    rest, _ = rest_of(Pod, what)
    assert rest is not None
    assert rest.spec.node_name == "n1"
    assert what.values["spec"]["priority"] == float("inf"), "reading the rest changes nothing"


def test_a_large_object_is_not_read_again_and_again() -> None:
    annotations = {"large": "x" * MOST_BYTES}
    one = {"metadata": {"name": "p", "annotations": annotations}, "spec": {"nodeName": "n1", "volumes": [{"name": 1}]}}
    rest, _ = rest_of(Pod, undecodable(one))
    assert rest is not None
    assert rest.spec.node_name == "n1"
    two = {**one, "spec": {"nodeName": 2, "volumes": [{"name": 1}]}}
    rest, paths = rest_of(Pod, undecodable(two))
    assert rest is not None
    assert (rest.spec.node_name, len(paths)) == ("", 3)
