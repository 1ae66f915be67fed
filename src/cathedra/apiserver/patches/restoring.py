"""Why a strategically patched map cannot become an object again, in the words of Kubernetes' own converter.

Strategic patches work on maps, and a map is turned into an object by another way than JSON: with other words for what
does not fit. This is asked only after decoding has refused.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.decoding.gotypes import Form, GoType
from cathedra.api.jsonvalue import JSONValue

__all__ = ["unrestorable"]

_KINDS: Final = {str: "string", bool: "bool", int: "int64", float: "float64", dict: "map", list: "slice"}
_GO_KINDS: Final = {
    Form.STRING: "string",
    Form.BOOL: "bool",
    Form.FLOAT: "float64",
}
_OWN_DECODERS: Final = frozenset(
    {Form.QUANTITY, Form.TIME, Form.MICRO_TIME, Form.DURATION, Form.INT_OR_STRING, Form.OPAQUE}
)


def unrestorable(value: JSONValue, shape: GoType) -> str:
    """The first misfit, or "" where JSON decoding has to say what is wrong."""
    if value is None or shape.form in _OWN_DECODERS:
        return ""
    kind = _KINDS[type(value)]
    if shape.form is Form.STRUCT:
        if not isinstance(value, dict):
            return f"cannot restore struct from: {kind}"
        return _first(unrestorable(value.get(name), inner) for name, inner in shape.fields.items())
    if shape.form is Form.MAP:
        if not isinstance(value, dict):
            return f"cannot restore map from {kind}"
        element = shape.element
        return _first(unrestorable(item, element) for item in value.values()) if element else ""
    if shape.form is Form.LIST:
        if not isinstance(value, list):
            return f"cannot restore slice from {kind}"
        element = shape.element
        return _first(unrestorable(item, element) for item in value) if element else ""
    return _scalar(value, kind, shape)


def _first(problems: Any) -> str:
    return next((problem for problem in problems if problem), "")


def _scalar(value: JSONValue, kind: str, shape: GoType) -> str:
    if shape.form is Form.BYTES:
        return "" if isinstance(value, str) else f"cannot restore slice from {kind}"
    wanted = _GO_KINDS.get(shape.form, f"int{shape.bits}")
    if isinstance(value, (dict, list)):
        return f"unrecognized type: {wanted}"
    if shape.form is Form.STRING:
        if isinstance(value, str):
            return ""
        # Go calls whole numbers convertible to text, and then refuses them one by one.
        return f"cannot convert {kind} to {shape.name}" if kind == "int64" else "unrecognized type: string"
    if shape.form is Form.BOOL:
        return "" if isinstance(value, bool) else "unrecognized type: bool"
    if isinstance(value, (bool, str)):
        return f"unrecognized type: {wanted}"
    if isinstance(value, float) and shape.form is Form.INTEGER and not value.is_integer():
        return f"cannot convert {kind} to {shape.name}"
    return ""
