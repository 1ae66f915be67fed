"""OpenAPI v2 in protobuf: fields of gnostic's messages, read back by their numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cathedra.apiserver.openapi.swaggerprotobuf import swagger_protobuf
from tests.unit.apiserver.asgi import open_asgi

DOCUMENT = {
    "swagger": "2.0",
    "info": {"title": "T", "version": "v1"},
    "paths": {
        "/a": {
            "patch": {
                "operationId": "patchA",
                "parameters": [{"name": "dryRun", "in": "query", "type": "string"}],
                "x-kubernetes-group-version-kind": {"kind": "A"},
            }
        }
    },
    "definitions": {
        "A": {
            "type": "object",
            "required": ["b"],
            "properties": {"b": {"type": "array", "items": {"$ref": "#/definitions/B"}}},
            "x-kubernetes-group-version-kind": [{"group": "", "kind": "A", "version": "v1"}],
        },
        "B": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 300}},
    },
}


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def entries(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 0:
            yield key >> 3, value
        else:
            yield key >> 3, data[at : at + value]
            at += value


def at(data: bytes, *path: int) -> list[bytes | int]:
    """Return the values at a path of field numbers."""
    found: list[bytes | int] = [data]
    for number in path:
        found = [value for one in found if isinstance(one, bytes) for key, value in entries(one) if key == number]
    return found


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ((1,), [b"2.0"]),
        ((2, 1), [b"T"]),
        ((8, 2, 1), [b"/a"]),
        ((8, 2, 2, 8, 5), [b"patchA"]),
        ((8, 2, 2, 8, 8, 1, 2, 3, 4), [b"dryRun"]),
        ((8, 2, 2, 8, 13, 1), [b"x-kubernetes-group-version-kind"]),
        ((8, 2, 2, 8, 13, 2, 2), [b'{"kind":"A"}']),
        ((9, 1, 1), [b"A", b"B"]),
        ((9, 1, 2, 22, 1), [b"object", b"object"]),
        ((9, 1, 2, 19), [b"b"]),
        ((9, 1, 2, 25, 1, 2, 23, 1, 1), [b"#/definitions/B"]),
        ((9, 1, 2, 31, 2, 2), [b'[{"group":"","kind":"A","version":"v1"}]']),
        ((9, 1, 2, 21, 1, 11), [300]),
    ],
)
def test_each_field_has_the_number_of_gnostics_message(path: tuple[int, ...], values: list[bytes | int]) -> None:
    assert at(swagger_protobuf(DOCUMENT), *path) == values


async def test_the_document_is_served_in_protobuf_with_a_tag_of_its_own() -> None:
    accept = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    async with open_asgi() as asgi:
        found = await asgi("GET", "/openapi/v2", **accept)
        tag = dict(found.headers)["etag"]
        again = await asgi("GET", "/openapi/v2", **accept, **{"if-none-match": tag})
        other = await asgi("GET", "/openapi/v2")
    assert b"io.k8s.api.core.v1.ConfigMap" in at(found.body, 9, 1, 1)
    assert again.status == 304
    assert dict(other.headers)["etag"] != tag
