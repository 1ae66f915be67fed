"""Objects in Kubernetes' protobuf form, as kubectl and every Go client send them.

No stubs are generated: a struct's codec is put together from the wire facts (`cathedra.api.facts`) when the struct is
first met, and kept. In the order in which bytes pass through: `envelope` takes a body out of its wrapping, `wire`
splits a message into fields, `scalars` knows the forms of single values, `messages` those of structs, `schemas` that of
a custom resource's schema, which is kept as opaque JSON inside.
"""

from cathedra.api.protobuf.envelope import MAGIC, ProtobufEnvelope, unwrap, watch_frame, wrap
from cathedra.api.protobuf.messages import decode_message, encode_message, has_message
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
