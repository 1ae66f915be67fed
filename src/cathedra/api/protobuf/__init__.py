"""Objects in Kubernetes' protobuf form, which kubectl and every Go client send.

No stubs are generated: a struct's codec is built from the wire facts (`cathedra.api.facts`) when it is first needed.
`wire` splits a message into fields, `messages` encodes structs and their envelope, and `_schemas` encodes single
values, and the schema of a custom resource, which is opaque JSON inside.
"""

from cathedra.api.protobuf.messages import (
    MAGIC,
    ProtobufEnvelope,
    decode_message,
    encode_message,
    has_message,
    unwrap,
    watch_frame,
    wrap,
)
from cathedra.api.protobuf.wire import ProtobufError

__all__ = [
    "MAGIC",
    "ProtobufEnvelope",
    "ProtobufError",
    "decode_message",
    "encode_message",
    "has_message",
    "unwrap",
    "watch_frame",
    "wrap",
]
