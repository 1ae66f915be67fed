"""Several versions of one object in one file: take the first that is known here.

A driver writes the same data once for each version that it supports, so that old and new programs can read one file.
Objects of unknown versions are skipped; a malformed object of a known version is an error, because the versions behind
it would only hide a broken driver (docs/spec/node.md §21.4).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from cathedra.devicemetadata._metadata import (
    AttributeValue,
    ClaimIdentity,
    DeviceMetadata,
    MetadataError,
    NetworkData,
    PreparedDevice,
    PreparedRequest,
)

KNOWN_VERSIONS = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")
"""The versions that can be read, newest first."""

KIND = "DeviceMetadata"


def decode_metadata_stream(text: str | bytes) -> DeviceMetadata:
    """Return the first object of the stream whose version is known.

    Raises:
        MetadataError: no version is known, there is no object, or the JSON or an object of a known version is
            malformed.
    """
    unknown: list[str] = []
    for document in _documents(_decoded(text) if isinstance(text, bytes) else text):
        version = document.get("apiVersion", "")
        if version in KNOWN_VERSIONS and document.get("kind") == KIND:
            return _device_metadata(document)
        unknown.append(str(version) if document.get("kind") == KIND else f"{version}, Kind={document.get('kind', '')}")
    if unknown:
        raise MetadataError(
            f"no compatible metadata version found in stream (unknown versions: {', '.join(unknown)}); "
            f"this reader knows {', '.join(KNOWN_VERSIONS)}"
        )
    raise MetadataError("no metadata objects found in stream")


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as malformed:
        raise MetadataError(f"decode metadata stream: {malformed}") from malformed


def _documents(text: str) -> Iterator[Mapping[str, Any]]:
    decoder = json.JSONDecoder()
    position = _skip_blanks(text, 0)
    while position < len(text):
        try:
            document, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as malformed:
            raise MetadataError(f"decode metadata stream: {malformed}") from malformed
        if not isinstance(document, dict):
            raise MetadataError(f"decode metadata stream: JSON object expected, found {json.dumps(document)}")
        yield document
        position = _skip_blanks(text, position)


def _skip_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


# Go reads null as nothing, and writes it for lists and maps that are nil: so does each function from here on.


def _device_metadata(document: Mapping[str, Any]) -> DeviceMetadata:
    identity = _mapping(document.get("metadata", {}), "metadata")
    pod_claim = document.get("podClaimName")
    return DeviceMetadata(
        claim=ClaimIdentity(
            name=_string(identity, "name", "metadata"),
            namespace=_string(identity, "namespace", "metadata"),
            uid=_string(identity, "uid", "metadata"),
            generation=_integer(identity.get("generation"), "metadata.generation"),
        ),
        requests=tuple(
            _request(_mapping(entry, f"requests[{i}]"), f"requests[{i}]")
            for i, entry in enumerate(_sequence(document.get("requests"), "requests"))
        ),
        pod_claim_name=None if pod_claim is None else _text(pod_claim, "podClaimName"),
    )


def _request(entry: Mapping[str, Any], where: str) -> PreparedRequest:
    return PreparedRequest(
        name=_string(entry, "name", where),
        devices=tuple(
            _device(_mapping(device, f"{where}.devices[{i}]"), f"{where}.devices[{i}]")
            for i, device in enumerate(_sequence(entry.get("devices"), f"{where}.devices"))
        ),
    )


def _device(entry: Mapping[str, Any], where: str) -> PreparedDevice:
    attributes: dict[str, AttributeValue] = {}
    kinds: dict[str, str] = {}
    for name, union in _mapping(entry.get("attributes", {}), f"{where}.attributes").items():
        position = f"{where}.attributes[{name}]"
        for kind, value in _mapping(union, position).items():
            if value is None or kind not in _KINDS:
                continue
            attributes[name], kinds[name] = _attribute(kind, value, position), kind
    return PreparedDevice(
        driver=_string(entry, "driver", where),
        pool=_string(entry, "pool", where),
        name=_string(entry, "name", where),
        attributes=MappingProxyType(attributes),
        kinds=MappingProxyType(kinds),
        network_data=_network_data(entry.get("networkData"), f"{where}.networkData"),
    )


_KINDS: Mapping[str, type] = {
    "int": int,
    "bool": bool,
    "string": str,
    "version": str,
    "ints": int,
    "bools": bool,
    "strings": str,
    "versions": str,
}


def _attribute(kind: str, value: Any, where: str) -> AttributeValue:
    element = _KINDS[kind]
    found: AttributeValue
    if kind.endswith("s"):
        found = tuple(_of_kind(item, element, where) for item in _sequence(value, where))
    else:
        found = _of_kind(value, element, where)
    return found


def _of_kind(value: Any, kind: type, where: str) -> Any:
    if value is None:
        return kind()
    # bool is an int in Python, but {"int": true} is as wrong as {"int": "1"}.
    if type(value) is not kind:
        raise MetadataError(f"{where}: {kind.__name__} expected, found {json.dumps(value)}")
    return value


def _network_data(value: Any, where: str) -> NetworkData | None:
    if value is None:
        return None
    entry = _mapping(value, where)
    return NetworkData(
        interface_name=_string(entry, "interfaceName", where),
        ips=tuple(_text(ip, f"{where}.ips") for ip in _sequence(entry.get("ips"), f"{where}.ips")),
        hardware_address=_string(entry, "hardwareAddress", where),
    )


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MetadataError(f"{where}: JSON object expected, found {json.dumps(value)}")
    return value


def _sequence(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MetadataError(f"{where}: JSON list expected, found {json.dumps(value)}")
    return value


def _string(entry: Mapping[str, Any], key: str, where: str) -> str:
    return _text(entry.get(key), f"{where}.{key}")


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MetadataError(f"{where}: string expected, found {json.dumps(value)}")
    return value


def _integer(value: Any, where: str) -> int:
    if value is None:
        return 0
    if type(value) is not int:
        raise MetadataError(f"{where}: int expected, found {json.dumps(value)}")
    return value
