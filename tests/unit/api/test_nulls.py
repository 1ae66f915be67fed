"""Null is nothing, as for Go: in every list, map, struct and scalar of every type, on every way of decoding."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cathedra.api import facts
from cathedra.api.core import core_v1, rbac_v1, storage_v1
from cathedra.api.core.core_v1 import Pod, Secret
from cathedra.api.core.index import KINDS, MODULES
from cathedra.api.core.meta_v1 import KubeObject, ListMeta, ManagedFieldsEntry
from cathedra.api.decoding import decode_json, decode_values
from cathedra.api.nulls import without_nulls
from cathedra.api.parts import parts_decoder, reader_of
from cathedra.api.scheme import GroupVersionKind, type_of
from cathedra.api.struct import KubeStruct, RawJSON, decode, decoder_of, encode, from_dict
from cathedra.api.typeinfo import FieldInfo, locate, type_info
from tests.unit.api.nulled import nulled

WRITTEN_AS_NULL = Path(__file__).with_name("written_as_null.txt")
"""The lists and maps that Go writes as null when they are nil, one a line: package, type, field."""
ALL_KINDS = sorted((api_version, kind) for api_version in MODULES for kind in KINDS[api_version])
ROUNDS = 12


def _is_nilable(go: str, package: str) -> bool:
    if go.startswith(("[]", "map[")):
        return True
    info = None if go.startswith("*") else locate(package, go)
    return info is not None and bool(info.alias) and _is_nilable(info.alias, info.package)


def nil_fields() -> Iterator[tuple[str, str, FieldInfo]]:
    """The fields of lists and maps without ``omitempty`` in the facts of Go's types."""
    for package, declared in sorted(facts.load().items()):
        for name in sorted(declared):
            for field in type_info(package, name).declared:
                shown = not field.omitempty and not field.embedded and field.name != "-"
                if shown and _is_nilable(field.go, package):
                    yield package, name, field


def struct_of(package: str, name: str) -> type[KubeStruct] | None:
    home = (
        "cathedra.api.resource"
        if package in ("resource/v1", "resource/v1beta2")
        else f"cathedra.api.core.{package.replace('/', '_')}"
    )
    try:
        found: type[KubeStruct] | None = getattr(importlib.import_module(home), name, None)
    except ModuleNotFoundError:
        return None
    return found


def test_the_fields_that_go_writes_as_null_are_those_of_the_list() -> None:
    found = [f"{package} {name} {field.name}" for package, name, field in nil_fields()]
    assert found == WRITTEN_AS_NULL.read_text().splitlines()


@pytest.mark.parametrize("line", WRITTEN_AS_NULL.read_text().splitlines())
def test_a_list_that_go_writes_as_null_is_empty(line: str) -> None:
    package, name, field = line.split()
    kind = struct_of(package, name)
    if kind is None:
        # opaque JSON to us, or a version that is never served
        assert name.startswith("JSONSchemaProps") or facts.group_version(package) not in MODULES
        return
    assert decode(kind, json.dumps({field: None})) == decode(kind, b"{}")


@pytest.mark.parametrize(("api_version", "kind"), ALL_KINDS)
def test_each_field_of_each_type_reads_null_as_absent(api_version: str, kind: str) -> None:
    pending: list[type[KubeStruct]] = [type_of(GroupVersionKind.parse(api_version, kind))]
    seen = set(pending)
    for one in pending:
        empty = decode(one, b"{}")
        for field in msgspec.structs.fields(one):
            assert decode(one, json.dumps({field.encode_name: None})) == empty
            below = [inner for inner in structs_in(field.type) if inner not in seen]
            seen.update(below)
            pending += below


def structs_in(hint: Any) -> Iterator[type[KubeStruct]]:
    if isinstance(hint, type) and issubclass(hint, KubeStruct):
        yield hint
    for argument in getattr(hint, "__args__", ()):
        yield from structs_in(argument)


@pytest.mark.parametrize(("api_version", "kind"), ALL_KINDS)
def test_an_object_with_nulls_is_the_one_with_nothing_there(api_version: str, kind: str) -> None:
    struct = type_of(GroupVersionKind.parse(api_version, kind))
    chance = random.Random(f"{api_version}/{kind}")
    for _ in range(ROUNDS):
        written, meant = nulled(struct, chance)
        body = json.dumps(written).encode()
        expected = decoder_of(struct).decode(json.dumps(meant))
        assert decode(struct, body) == expected
        assert reader_of(struct)(body) == expected
        assert from_dict(struct, written) == expected
        assert parts_decoder(struct).new(body) == expected
        assert_decoded_as_a_body(struct, GroupVersionKind.parse(api_version, kind), written, meant)
        if issubclass(struct, KubeObject):
            earlier = json.dumps(nulled(struct, chance).written).encode()
            assert parts_decoder(struct).later(body, decode(struct, earlier), earlier) == expected


def assert_decoded_as_a_body(struct: type[KubeStruct], gvk: GroupVersionKind, written: Any, meant: Any) -> None:
    """The forgiving reader of what is posted, patched and dumped agrees."""
    expected = decode_values(struct, gvk, meant).object
    assert decode_values(struct, gvk, written).object == expected
    assert decode_json(struct, gvk, json.dumps(written, separators=(",", ":")).encode()).object == expected


def test_null_in_opaque_json_stays() -> None:
    entry = decode(ManagedFieldsEntry, b'{"manager":null,"fieldsV1":{"f:a":null}}')
    assert entry.fields_v1 == RawJSON(b'{"f:a":null}')
    assert decode(ManagedFieldsEntry, b'{"fieldsV1":null}').fields_v1 is None


def test_elements_that_are_null_have_their_zero_value() -> None:
    assert decode(Secret, b'{"data":{"a":null,"b":"eA=="}}').data == {"a": b"", "b": b"x"}
    pod = decode(Pod, b'{"spec":{"containers":[null,{"name":"c","command":["a",null]}]}}')
    assert [container.name for container in pod.spec.containers] == ["", "c"]
    assert pod.spec.containers[1].command == ("a", "")


def test_a_list_in_place_of_an_object_is_still_refused_beside_a_null() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Expected `object`, got `array` - at `\$\.metadata`"):
        decode(Pod, b'{"spec":{"containers":null},"metadata":[]}')
    with pytest.raises(msgspec.ValidationError, match=r"Expected `str`, got `int` - at `\$\.metadata\.name`"):
        from_dict(Pod, {"spec": {"containers": None}, "metadata": {"name": 7}})


def test_what_is_given_is_not_changed() -> None:
    given = {"spec": {"containers": [{"name": None}], "volumes": None}}
    assert without_nulls(given, Pod) == {"spec": {"containers": [{}]}}
    assert given == {"spec": {"containers": [{"name": None}], "volumes": None}}


def test_an_object_without_null_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mended way costs five times as much; it is only for what the struct refuses."""

    def unexpected(*_: Any) -> Any:
        raise AssertionError("mended")

    monkeypatch.setattr("cathedra.api.struct.without_nulls", unexpected)
    assert decode(Pod, encode(Pod())) == Pod()
    assert decode(ListMeta, b'{"remainingItemCount":null}') == ListMeta()
    with pytest.raises(msgspec.ValidationError):
        decode(Pod, b'{"metadata":7}')


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (core_v1.ProjectedVolumeSource(), {"sources": None}),
        (core_v1.LimitRangeSpec(), {"limits": None}),
        (storage_v1.CSINodeSpec(), {"drivers": None}),
        (storage_v1.CSINodeDriver(name="d", node_id="n"), {"name": "d", "nodeID": "n", "topologyKeys": None}),
        (rbac_v1.Role().rules, None),
    ],
)
def test_a_list_that_an_object_may_lack_is_written_as_null(value: Any, written: Any) -> None:
    assert json.loads(encode(value)) == written
