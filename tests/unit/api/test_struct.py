"""The wire form of objects: what is left out, what is always there, what keeps its bytes."""

from __future__ import annotations

import msgspec
import pytest

from cathedra.api import resource
from cathedra.api.core import core_v1, meta_v1
from cathedra.api.struct import RawJSON, Time, decode, encode, encode_in, from_dict, replace, to_dict


def test_empty_fields_are_left_out_but_for_those_that_are_always_written() -> None:
    assert to_dict(core_v1.Container(name="c")) == {"name": "c", "resources": {}}
    assert to_dict(resource.ResourceClaim()) == {"metadata": {}, "spec": {"devices": {"requests": None}}, "status": {}}


def test_an_object_reads_as_it_was_written() -> None:
    body = b'{"metadata":{"name":"x"},"spec":{"devices":{"requests":[{"name":"r"}]}},"status":{}}'
    assert encode(decode(resource.ResourceClaim, body)) == body


def test_opaque_json_keeps_its_spelling_without_the_blanks() -> None:
    raw = RawJSON(b'{ "a" : 1.0 , "b" : "x y" }')
    assert raw.compact() == b'{"a":1.0,"b":"x y"}'
    assert raw != RawJSON(b'{"a":1.0,"b":"x y"}')
    assert raw.load() == {"a": 1.0, "b": "x y"}


def test_opaque_json_with_blanks_and_texts_of_other_classes_are_written_beside_plain_values() -> None:
    class Name(str):
        __slots__ = ()

    values = {"raw": RawJSON(b'{ "a" : 1 }'), "name": Name("n"), "time": Time(5)}
    expected = b'{"raw":{"a":1},"name":"n","time":"1970-01-01T00:00:05Z"}'
    assert [encode(values), encode(values)] == [expected, expected]


def test_a_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="no JSON form is known for <class 'object'>"):
        encode({"value": object()})


def test_a_time_without_meaning_is_null() -> None:
    taint = resource.DeviceTaint(key="k", effect="None", time_added=Time.parse("0001-01-01T00:00:00Z"))
    assert to_dict(taint)["timeAdded"] is None


def test_fields_come_in_the_order_of_kubernetes() -> None:
    names = list(to_dict(from_dict(core_v1.PodSpec, {"containers": [], "initContainers": [{"name": "i"}]})))
    assert names == ["initContainers", "containers"]


def test_a_change_makes_another_object() -> None:
    pod = core_v1.Pod(metadata=meta_v1.ObjectMeta(name="a"))
    other = replace(pod, metadata=replace(pod.metadata, name="b"))
    assert (pod.metadata.name, other.metadata.name) == ("a", "b")
    with pytest.raises(AttributeError):
        pod.kind = "x"  # type: ignore[misc]


def test_bytes_that_are_no_text_are_an_error_of_decoding() -> None:
    with pytest.raises(msgspec.DecodeError, match="invalid UTF-8"):
        decode(meta_v1.ObjectMeta, b'{"name":"\xb0"}')


def test_a_buffer_that_is_kept_changes_no_json() -> None:
    """Also after a larger object, and for values of the slow path."""
    raw = RawJSON(b'{"a": 1}')
    buffer = bytearray()
    for value in ({"text": "x" * 5000}, {"time": Time(0)}, {"raw": raw, "text": _Text("y")}, {"raw": raw}, {}):
        assert encode_in(buffer, value) == encode(value)


class _Text(str):
    """A text of a class of its own."""

    __slots__ = ()
