"""Several versions of one object in one file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.devicemetadata import KNOWN_VERSIONS, MetadataError, NetworkData, decode_metadata_stream, validate

NEW, OLD = KNOWN_VERSIONS


def document(version: str, *, name: str = "c", device: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": "DeviceMetadata",
        "metadata": {"name": name, "namespace": "default", "uid": "u", "generation": 1},
        "requests": [{"name": "r", "devices": [device or {"driver": "d", "pool": "p", "name": "n"}]}],
    }


def stream(*documents: dict[str, Any]) -> str:
    return "".join(json.dumps(d, indent=2) + "\n" for d in documents)


def test_first_known_version_wins() -> None:
    assert decode_metadata_stream(stream(document(OLD, name="old"), document(NEW, name="new"))).claim.name == "old"


def test_unknown_versions_are_skipped() -> None:
    text = stream(document("metadata.resource.k8s.io/v9"), document(NEW, name="known"))
    assert decode_metadata_stream(text).claim.name == "known"


def test_only_unknown_versions_is_an_error_that_lists_them() -> None:
    with pytest.raises(MetadataError, match=r"no compatible metadata version found in stream \(unknown versions: a/v9"):
        decode_metadata_stream(stream(document("a/v9")))


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_empty_stream_is_an_error(text: str) -> None:
    with pytest.raises(MetadataError, match="no metadata objects found in stream"):
        decode_metadata_stream(text)


@pytest.mark.parametrize("text", ["{", "[]", "nonsense", '{"apiVersion": "x"} {'])
def test_malformed_json_is_an_error(text: str) -> None:
    with pytest.raises(MetadataError):
        decode_metadata_stream(text)


@pytest.mark.parametrize(
    "device",
    [
        {"driver": 1, "pool": "p", "name": "n"},
        {"driver": "d", "pool": "p", "name": "n", "attributes": {"a": {"int": "1"}}},
        {"driver": "d", "pool": "p", "name": "n", "attributes": {"a": {"int": True}}},
        {"driver": "d", "pool": "p", "name": "n", "attributes": []},
        {"driver": "d", "pool": "p", "name": "n", "networkData": {"ips": "10.0.0.1/8"}},
    ],
)
def test_malformed_object_of_a_known_version_is_an_error_even_if_another_follows(device: dict[str, Any]) -> None:
    with pytest.raises(MetadataError):
        decode_metadata_stream(stream(document(NEW, device=device), document(OLD)))


def test_network_data_is_read() -> None:
    device = {
        "driver": "d",
        "pool": "p",
        "name": "n",
        "networkData": {"interfaceName": "eth1", "ips": ["10.0.0.1/8"], "hardwareAddress": "00:11"},
    }
    found = decode_metadata_stream(stream(document(NEW, device=device))).requests[0].devices[0].network_data
    assert found == NetworkData("eth1", ("10.0.0.1/8",), "00:11")


ATTRIBUTES = st.one_of(
    st.tuples(st.just("int"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("bool"), st.booleans()),
    st.tuples(st.sampled_from(["string", "version"]), st.text(max_size=64)),
    st.tuples(st.just("ints"), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)),
    st.tuples(st.just("bools"), st.lists(st.booleans(), max_size=4)),
    st.tuples(st.sampled_from(["strings", "versions"]), st.lists(st.text(max_size=8), max_size=4)),
)


@given(ATTRIBUTES)
def test_every_kind_of_attribute_keeps_its_value_and_kind(attribute: tuple[str, Any]) -> None:
    kind, value = attribute
    device = {"driver": "d", "pool": "p", "name": "n", "attributes": {"a": {kind: value}}}
    found = decode_metadata_stream(stream(document(NEW, device=device))).requests[0].devices[0]
    assert found.kinds == {"a": kind}
    assert found.attributes == {"a": tuple(value) if isinstance(value, list) else value}


def test_validation_finds_what_the_rules_forbid_and_nothing_else() -> None:
    good = decode_metadata_stream(stream(document(NEW)))
    bad = decode_metadata_stream(
        stream(document(NEW, device={"driver": "UPPER", "pool": "a//b", "name": "a.b"}) | {"podClaimName": "x.y"})
    )
    assert validate(good) == ()
    assert [line.split(":")[0] for line in validate(bad)] == [
        "podClaimName",
        "requests[0].devices[0].driver",
        "requests[0].devices[0].pool",
        "requests[0].devices[0].name",
    ]


def test_bytes_that_are_no_text_are_an_error() -> None:
    with pytest.raises(MetadataError, match="decode metadata stream: 'utf-8' codec"):
        decode_metadata_stream(b"\xd1")


def test_null_is_nothing_as_for_go() -> None:
    device = {"driver": "d", "pool": None, "name": "n", "attributes": {"a": {"strings": ["x", None], "int": None}}}
    written = document(NEW, device={**device, "networkData": {"ips": None, "interfaceName": None}})
    written["metadata"] |= {"uid": None, "generation": None}
    written["requests"] = [*written["requests"], {"name": "empty", "devices": None}]
    read = decode_metadata_stream(stream(written))
    (found,) = read.requests[0].devices
    assert (read.claim.uid, read.claim.generation, found.pool) == ("", 0, "")
    assert (found.attributes, found.network_data) == ({"a": ("x", "")}, NetworkData())
    assert read.requests[1].devices == ()
    assert decode_metadata_stream(stream({**written, "requests": None, "metadata": None})).requests == ()
