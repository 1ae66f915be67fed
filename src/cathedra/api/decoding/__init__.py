"""From the bytes of a request to an object, exactly as forgiving and as strict as Kubernetes.

In the order in which a body passes through: `envelope` finds out what the body claims to be, `bodies` decodes it (a
fast way for what is right, `reader` for everything else), `shapes` knows Kubernetes' own names for the types that
errors speak of, `syntax` explains broken JSON, `opaque` keeps the bytes of opaque parts.
"""

from cathedra.api.decoding.bodies import (
    Decoded,
    decode_json,
    decode_values,
    encode_with_kind,
    written_keys,
    yaml_to_json,
)
from cathedra.api.decoding.envelope import Envelope, read_envelope
from cathedra.api.decoding.errors import DecodeError

__all__ = [
    "DecodeError",
    "Decoded",
    "Envelope",
    "decode_json",
    "decode_values",
    "encode_with_kind",
    "read_envelope",
    "written_keys",
    "yaml_to_json",
]
