"""Types of expressions, and the protobuf messages that stand for them.

Names and spellings are those of Kubernetes' errors: ``list(int)``, ``map(string, any)``, ``kubernetes.Quantity``.
``any`` and ``dyn`` both mean «unknown until run time», but only ``dyn`` may be iterated (docs/spec/cel.md §1).

The messages of ``google.protobuf`` (wrappers, JSON values, durations, timestamps) are in Kubernetes' environment, so
expressions can name them and write literals of them. `cathedra.cel.library.messages` evaluates such literals.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final

from cathedra.cel.checking import types


class Kind(enum.IntEnum):
    """Kind of a type."""

    ANY = 1
    DYN = 2
    ERROR = 3
    NULL = 4
    BOOL = 5
    BYTES = 6
    DOUBLE = 7
    INT = 8
    STRING = 9
    UINT = 10
    DURATION = 11
    TIMESTAMP = 12
    STRUCT = 13
    OPAQUE = 14
    LIST = 15
    MAP = 16
    TYPE = 17
    PARAM = 18


class Type:
    """A type; equal when kind, name and parameters are. ``nullable`` marks a wrapper, which accepts null as well."""

    __slots__ = ("_hash", "generic", "kind", "name", "nullable", "params")
    generic: bool

    def __init__(self, kind: Kind, name: str, params: tuple[Type, ...] = (), *, nullable: bool = False) -> None:
        self.kind, self.name, self.params, self.nullable = kind, name, params, nullable
        self.generic = kind is Kind.PARAM or any(p.generic for p in params)
        # Computed once: types are compared at every node, and nested ones would be walked each time.
        self._hash = hash((kind, name, params))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # Different hashes end nearly every comparison of unequal types.
        if not isinstance(other, Type) or self._hash != other._hash:
            return False
        pairs = [(self, other)]
        while pairs:
            one, two = pairs.pop()
            if one is two:
                continue
            if one.kind is not two.kind or one.name != two.name or len(one.params) != len(two.params):
                return False
            pairs.extend(zip(one.params, two.params, strict=True))
        return True

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """As reports write it."""
        return _spelled(self, _reported)

    @property
    def declared(self) -> str:
        """As the type of a whole expression is named: run-time names, with parameters."""
        return _spelled(self, _named)


def _spelled(whole: Type, head: Callable[[Type], tuple[str, bool]]) -> str:
    """``name(first, second)``; ``head`` gives the name of a type, and whether its parameters follow. Users nest types
    as deeply as their expressions, so this is no recursion."""
    pieces: list[str] = []
    pending: list[Type | str] = [whole]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            pieces.append(one)
            continue
        name, open_ = head(one)
        pieces.append(name)
        if not open_ or not one.params:
            continue
        pieces.append("(")
        pending.append(")")
        for position in range(len(one.params) - 1, -1, -1):
            pending.append(one.params[position])
            if position:
                pending.append(", ")
    return "".join(pieces)


def _reported(one: Type) -> tuple[str, bool]:
    special = _TEXTS.get(one.kind)
    if special is not None:
        return special, False
    return (f"wrapper({one.name})", False) if one.nullable else (one.name, True)


def _named(one: Type) -> tuple[str, bool]:
    if not one.params and one.nullable:
        return f"wrapper({one.name})", False
    return one.name, True


_TEXTS: Final = {
    Kind.ANY: "any",
    Kind.DURATION: "duration",
    Kind.ERROR: "!error!",
    Kind.NULL: "null",
    Kind.TIMESTAMP: "timestamp",
}

ANY: Final = Type(Kind.ANY, "google.protobuf.Any")
DYN: Final = Type(Kind.DYN, "dyn")
ERROR: Final = Type(Kind.ERROR, "*error*")
NULL: Final = Type(Kind.NULL, "null_type")
BOOL: Final = Type(Kind.BOOL, "bool")
BYTES: Final = Type(Kind.BYTES, "bytes")
DOUBLE: Final = Type(Kind.DOUBLE, "double")
INT: Final = Type(Kind.INT, "int")
STRING: Final = Type(Kind.STRING, "string")
UINT: Final = Type(Kind.UINT, "uint")
DURATION: Final = Type(Kind.DURATION, "google.protobuf.Duration")
TIMESTAMP: Final = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE: Final = Type(Kind.TYPE, "type")


def list_of(element: Type) -> Type:
    """Return the type ``list(element)``."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type ``map(key, value)``."""
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type ``optional_type(value)``."""
    return Type(Kind.OPAQUE, "optional_type", (value,))


def type_of(value: Type) -> Type:
    """Return ``type(value)``, the type of a type."""
    return Type(Kind.TYPE, "type", (value,))


def nullable(wrapped: Type) -> Type:
    """``wrapper(wrapped)``: a value of the type, or null."""
    return Type(wrapped.kind, wrapped.name, nullable=True)


def plain(wrapper: Type) -> Type:
    """Return the type without its null."""
    return Type(wrapper.kind, wrapper.name, wrapper.params)


def opaque(name: str, *params: Type) -> Type:
    """Return a type known by its name and parameters alone."""
    return Type(Kind.OPAQUE, name, params)


def struct(name: str) -> Type:
    """Return an object type, with fields if the environment declares some."""
    return Type(Kind.STRUCT, name)


def param(name: str) -> Type:
    """Return a type variable."""
    return Type(Kind.PARAM, name)


QUANTITY: Final = struct("kubernetes.Quantity")
SEMVER: Final = struct("kubernetes.Semver")
URL: Final = struct("kubernetes.URL")
FORMAT: Final = struct("kubernetes.NamedFormat")
IP: Final = opaque("net.IP")
CIDR: Final = opaque("net.CIDR")
AUTHORIZER: Final = struct("kubernetes.authorization.Authorizer")
PATH_CHECK: Final = struct("kubernetes.authorization.PathCheck")
GROUP_CHECK: Final = struct("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = struct("kubernetes.authorization.ResourceCheck")
DECISION: Final = struct("kubernetes.authorization.Decision")

BY_NAME: Final = {
    "any": ANY,
    "dyn": DYN,
    "null_type": NULL,
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "string": STRING,
    "uint": UINT,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Any": ANY,
    "type": TYPE,
    "Quantity": QUANTITY,
    "Semver": SEMVER,
    "URL": URL,
    "Format": FORMAT,
    "IP": IP,
    "CIDR": CIDR,
    "Authorizer": AUTHORIZER,
    "PathCheck": PATH_CHECK,
    "GroupCheck": GROUP_CHECK,
    "ResourceCheck": RESOURCE_CHECK,
    "Decision": DECISION,
}


def parse(text: str) -> Type:
    """Parse a type. Single capitals are type variables, unknown names are object types."""
    rest, made = _parse(text.replace(" ", ""))
    if rest:
        raise ValueError(f"no type: {text}")
    return made


def _parse(text: str) -> tuple[str, Type]:
    end = min((i for i in (text.find("("), text.find(","), text.find(")")) if i >= 0), default=len(text))
    name, rest = text[:end], text[end:]
    if not rest.startswith("("):
        if len(name) == 1 and name.isupper():
            return rest, param(name)
        if name == "list":
            return rest, list_of(DYN)
        if name == "map":
            return rest, map_of(DYN, DYN)
        return rest, BY_NAME.get(name) or struct(name)
    params: list[Type] = []
    while not rest.startswith(")"):
        rest, one = _parse(rest[1:])
        params.append(one)
    rest = rest[1:]
    if name == "list":
        return rest, list_of(params[0])
    if name == "map":
        return rest, map_of(*params)
    if name == "type":
        return rest, type_of(params[0])
    if name in ("optional", "optional_type"):
        return rest, optional_of(params[0])
    if name == "wrapper":
        return rest, nullable(params[0])
    return rest, opaque(name, *params)


_PREFIX: Final = "google.protobuf."
_VALUES: Final = types.list_of(types.DYN)
_STRUCT: Final = types.map_of(types.STRING, types.DYN)

MESSAGES: Final[Mapping[str, Type]] = {
    _PREFIX + name: stands_for
    for name, stands_for in {
        "Any": types.ANY,
        "BoolValue": types.nullable(types.BOOL),
        "BytesValue": types.nullable(types.BYTES),
        "DoubleValue": types.nullable(types.DOUBLE),
        "Duration": types.DURATION,
        "Empty": types.struct("google.protobuf.Empty"),
        "FloatValue": types.nullable(types.DOUBLE),
        "Int32Value": types.nullable(types.INT),
        "Int64Value": types.nullable(types.INT),
        "ListValue": _VALUES,
        "StringValue": types.nullable(types.STRING),
        "Struct": _STRUCT,
        "Timestamp": types.TIMESTAMP,
        "UInt32Value": types.nullable(types.UINT),
        "UInt64Value": types.nullable(types.UINT),
        "Value": types.DYN,
    }.items()
}
"""Name → the CEL type that the message stands for."""

CONSTANTS: Final[Mapping[str, tuple[Type, int]]] = {"google.protobuf.NullValue.NULL_VALUE": (types.INT, 0)}
"""Values of enumerations by name."""

_MOMENT: Final = {"seconds": types.INT, "nanos": types.INT}
_FIELDS: Final[Mapping[str, Mapping[str, Type]]] = {
    "Any": {"type_url": types.STRING, "value": types.BYTES},
    "Duration": _MOMENT,
    "Empty": {},
    "ListValue": {"values": _VALUES},
    "Struct": {"fields": _STRUCT},
    "Timestamp": _MOMENT,
    "Value": {
        "null_value": types.INT,
        "number_value": types.DOUBLE,
        "string_value": types.STRING,
        "bool_value": types.BOOL,
        "struct_value": _STRUCT,
        "list_value": _VALUES,
    },
}


def fields_of(message: str) -> Mapping[str, Type] | None:
    """Return the fields that a literal of ``message`` may have, by type; None if it is no such message."""
    stands_for = MESSAGES.get(message)
    if stands_for is None:
        return None
    known = _FIELDS.get(message.removeprefix(_PREFIX))
    return known if known is not None else {"value": types.plain(stands_for)}
