"""Objects inside of custom objects (``x-kubernetes-embedded-resource``): their type and metadata.

Kubernetes validates them as it does those of an object itself, except that a name may be missing
(k8s.io/apiextensions-apiserver, pkg/apiserver/schema/objectmeta/validation.go).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.field import ErrorList, FieldError
from cathedra.api.formats import Format, dns_1035_label, path_segment
from cathedra.api.struct import from_dict, replace
from cathedra.apiserver.custom.schema import Schema
from cathedra.kinds.metadata import validate_new_metadata
from cathedra.releases import FeatureGates
from cathedra.remembering import IDENTITY, remembered

__all__ = ["embedded_errors", "has_embedded"]


class _Embedded(msgspec.Struct, frozen=True):
    """The rules of names of an embedded object."""

    namespaced: bool
    name_rule: Format = path_segment
    checks_generate_name: bool = True


@remembered("apiserver.custom.has_embedded", key=IDENTITY, size=1024)
def has_embedded(schema: Schema) -> bool:
    """Return True if values of the schema may have embedded objects: most kinds have none."""
    below = (*schema.properties.values(), schema.additional, schema.items)
    return schema.embedded or any(has_embedded(one) for one in below if one is not None)


def embedded_errors(schema: Schema, value: Any, path: str, gates: FeatureGates) -> Iterator[FieldError]:
    """Yield the errors of all embedded objects in a value, outer ones first."""
    if isinstance(value, list) and schema.items is not None:
        for position, item in enumerate(value):
            yield from embedded_errors(schema.items, item, f"{path}[{position}]", gates)
    if not isinstance(value, dict):
        return
    if schema.embedded:
        yield from _type_errors(value, path)
        if "metadata" in value:
            yield from _metadata_errors(value["metadata"], path, gates)
    for name, inner in value.items():
        if (known := schema.properties.get(name)) is not None:
            yield from embedded_errors(known, inner, f"{path}.{name}" if path else name, gates)
        elif schema.additional is not None:
            yield from embedded_errors(schema.additional, inner, f"{path}[{name}]", gates)


def _type_errors(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    errors = ErrorList()
    for name in ("apiVersion", "kind"):
        if name not in value:
            errors.required(f"{path}.{name}")
    for name in ("apiVersion", "kind"):
        where, given = f"{path}.{name}", value.get(name, "-")
        if not isinstance(given, str):
            errors.invalid(where, given, "must be a string")
        elif not given:
            errors.invalid(where, given, "must not be empty")
        elif name == "apiVersion" and given.count("/") > 1:
            errors.invalid(where, given, f"unexpected GroupVersion string: {given}")
        elif name == "kind" and name in value and (problems := list(dns_1035_label(given.lower()))):
            text = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            errors.invalid(where, given, text)
    yield from errors


_NAME: Final = "fakename"
"""A name in place of a missing one, which is no error here."""


def _metadata_errors(value: Any, path: str, gates: FeatureGates) -> Iterator[FieldError]:
    try:
        metadata = from_dict(ObjectMeta, value)
    except (msgspec.MsgspecError, TypeError) as error:
        errors = ErrorList()
        errors.invalid(f"{path}.metadata", value, str(error))
        yield from errors
        return
    if not metadata.name:
        metadata = replace(metadata, name=_NAME)
    for found in validate_new_metadata(_Embedded(bool(metadata.namespace)), metadata, gates):
        yield dataclasses.replace(found, field=f"{path}.{found.field}")
