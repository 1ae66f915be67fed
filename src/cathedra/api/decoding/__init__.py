"""Decoding of request bodies, exactly as lenient and as strict as Kubernetes.

In the order in which a body passes through: `envelope` reads its kind and apiVersion, `_bodies` decodes it (by msgspec;
by `reader` if that refuses it), `gotypes` has Kubernetes' names for the types in error texts, `syntax` explains broken
JSON, `_opaque` keeps the bytes of opaque parts; `yaml` turns YAML into JSON values. The nesting of a body is bounded
before all of them (`cathedra.api.nesting`).
"""

from cathedra.api.decoding._bodies import (
    KINDS_WITH_SCHEMAS,
    Decoded,
    decode_json,
    decode_sound,
    decode_values,
    decode_written,
    has_known_fields,
    written_keys,
)
from cathedra.api.decoding.envelope import Envelope, read_envelope
from cathedra.api.decoding.reader import DecodeError
from cathedra.api.decoding.written import WrittenObject, written_items
from cathedra.api.decoding.yaml import YAMLDocument, read_yaml, read_yaml_documents, write_yaml

__all__ = [
    "KINDS_WITH_SCHEMAS",
    "DecodeError",
    "Decoded",
    "Envelope",
    "WrittenObject",
    "YAMLDocument",
    "decode_json",
    "decode_sound",
    "decode_values",
    "decode_written",
    "has_known_fields",
    "read_envelope",
    "read_yaml",
    "read_yaml_documents",
    "write_yaml",
    "written_items",
    "written_keys",
]
