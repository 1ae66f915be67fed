"""The struct types of custom resources, made at run time: metadata as in every kind, the rest plain JSON values.

Everything in the server handles objects by ``metadata``, `replace` and `encode`; a struct per version lets custom
resources pass through the same ways as built-in ones. Their values are plain dicts and lists, treated as immutable.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta, PartialObjectMetadata
from cathedra.api.decoding import DecodeError, decode_values
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import KubeStruct, to_dict
from cathedra.apiserver.custom.schema import DefaultRoom, Schema
from cathedra.apiserver.patches.schema import DocumentShape, Shape, struct_shape

_PARTIAL: Final = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")


class ScalePaths(msgspec.Struct, frozen=True):
    """Paths of the numbers of an instance's scale, as ``.spec.replicas``."""

    spec_replicas: str
    status_replicas: str
    selector: str


class CustomObject(KubeObject, frozen=True):
    """An instance of some definition. Fields besides metadata are those of its schema's top level."""

    schema: ClassVar[Schema]
    shape: ClassVar[Shape]
    openapi: ClassVar[dict[str, Any]]
    scale: ClassVar[ScalePaths | None]


def is_custom(kind: type[KubeStruct]) -> bool:
    """Return True if a type was made at run time."""
    return issubclass(kind, CustomObject)


def make_type(kind: str, schema: Schema, scale: ScalePaths | None = None) -> type[CustomObject]:
    """Return the struct type of one version of a definition."""
    # Sorted, since Kubernetes keeps instances as maps, which it encodes in order. A property may have any name, so the
    # attributes have numbers.
    names = sorted(name for name in schema.properties if name not in {"apiVersion", "kind", "metadata"})
    attributes = {name: f"value_{position}" for position, name in enumerate(names)}
    fields: list[tuple[str, Any, Any]] = [(attributes[name], Any, None) for name in names]
    document = DocumentShape(
        {"metadata": struct_shape(ObjectMeta), **{name: schema.properties[name].shape for name in names}}
    )
    made: Any = msgspec.defstruct(
        kind,
        fields,
        bases=(CustomObject,),
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        rename={attribute: name for name, attribute in attributes.items()},
        namespace={
            "__doc__": schema.source.get("description", ""),
            "schema": schema,
            "shape": document,
            "openapi": dict(schema.source),
            "scale": scale,
        },
    )
    found: type[CustomObject] = made
    return found


def make_stored_type(kind: type[CustomObject], api_version: str) -> type[CustomObject]:
    """Return the type for the store, which holds several versions: its JSON contains the version."""
    made: Any = msgspec.defstruct(
        kind.__name__,
        [],
        bases=(kind,),
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        tag_field="apiVersion",
        tag=api_version,
    )
    found: type[CustomObject] = made
    return found


def stored_version(kind: type[CustomObject]) -> str:
    """Return the apiVersion of a type for the store; "" for every other type."""
    tag = kind.__struct_config__.tag
    return tag if isinstance(tag, str) else ""


def content(obj: CustomObject) -> JSONObject:
    """Return the fields besides metadata, by their JSON names."""
    pairs = zip(obj.__struct_encode_fields__, obj.__struct_fields__, strict=True)
    values = {name: getattr(obj, attribute) for name, attribute in pairs if name != "metadata"}
    return {name: value for name, value in values.items() if value is not None}


def plain_values(obj: CustomObject) -> JSONObject:
    """Return the object's fields as plain values. Only the metadata is converted: the rest is plain already."""
    return {"metadata": to_dict(obj.metadata), **content(obj)}


def with_content(kind: type[CustomObject], metadata: ObjectMeta, values: JSONObject) -> CustomObject:
    """Return an object of a type with these fields; those that the type does not have are dropped."""
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    known = {names[name]: value for name, value in values.items() if name in names and name != "metadata"}
    return kind(metadata=metadata, **known)


def normalized(obj: CustomObject, room: DefaultRoom | None = None) -> CustomObject:
    """Return the object pruned and with its defaults, as far as they fit into ``room``.

    A stored object that is read under a schema with larger defaults gets as many of them as fit: a reader cannot repair
    it, and a list must not fail because of one object.
    """
    schema = type(obj).schema
    values = schema.filled(schema.pruned(content(obj)), room)
    return with_content(type(obj), obj.metadata, values)


def decode_custom(kind: type[CustomObject], values: JSONObject, release: str) -> tuple[CustomObject, tuple[str, ...]]:
    """Return the object of plain values, and the problems with unknown fields.

    Raises:
        DecodeError: its metadata cannot be understood.
    """
    metadata = values.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise DecodeError(
            f"Error decoding metadata: json: cannot unmarshal into Go value of type v1.ObjectMeta: {metadata}"
        )
    partial: type[KubeStruct] = PartialObjectMetadata
    decoded: Any = decode_values(partial, _PARTIAL, {"metadata": metadata or {}}, release)
    problems = list(decoded.problems)
    rest = {name: value for name, value in values.items() if name not in {"metadata", "kind", "apiVersion"}}
    pruned = kind.schema.pruned(rest, None, problems)
    return with_content(kind, decoded.object.metadata, pruned), tuple(problems)
