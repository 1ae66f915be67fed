"""From the bytes of a request to an object, exactly as forgiving and as strict as Kubernetes.

In the order in which a body passes through: `envelope` finds out what the body claims to be, `bodies` decodes it (a
fast way for what is right, `reader` for everything else), `gotypes` knows Kubernetes' own names for the types that
errors speak of, `syntax` explains broken JSON, `opaque` keeps the bytes of opaque parts; `yaml` makes JSON's values of
YAML. How deeply a body may be nested is bounded before any of them (`cathedra.api.nesting`).
"""

from cathedra.api.decoding.bodies import (
    KINDS_WITH_SCHEMAS,
    Decoded,
    decode_json,
    decode_sound,
    decode_values,
    encode_with_kind,
    has_known_fields,
    written_keys,
)
from cathedra.api.decoding.envelope import Envelope, read_envelope
from cathedra.api.decoding.errors import DecodeError
from cathedra.api.decoding.yaml import YAMLDocument, read_yaml, read_yaml_documents, write_yaml

__all__ = [
    "KINDS_WITH_SCHEMAS",
    "DecodeError",
    "Decoded",
    "Envelope",
    "YAMLDocument",
    "decode_json",
    "decode_sound",
    "decode_values",
    "encode_with_kind",
    "has_known_fields",
    "read_envelope",
    "read_yaml",
    "read_yaml_documents",
    "write_yaml",
    "written_keys",
]
