"""Functions of optionals (docs/spec/cel.md §6.9)."""

from __future__ import annotations

from typing import Final

from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.values import NONE, CELValue, Duration, Failure, Optional, UInt, text


def is_zero(value: CELValue) -> bool:
    """Return True if ``optional.ofNonZeroValue`` takes the value for nothing."""
    kind = value.__class__
    if value is None:
        return True
    if kind in (bool, int, UInt, float, str, bytes) or isinstance(value, (list, dict)):
        return not value
    if kind is Duration:
        return bool(value.nanos == 0)
    if kind is Optional:
        return not value.present
    return False


def unwrap(values: CELValue) -> CELValue:
    """Return the values of the optionals that have one."""
    present = []
    for value in values:
        if value.__class__ is not Optional:
            return Failure(f"value {text(value)} is not optional")
        if value.present:
            present.append(value.value)
    return present


def _value(optional: CELValue) -> CELValue:
    return optional.value if optional.present else Failure("optional.none() dereference")


OVERLOADS: Final[Functions] = {
    "optional.of": (declare("optional_of: V -> optional(V)", Optional),),
    "optional.ofNonZeroValue": (
        declare("optional_ofNonZeroValue: V -> optional(V)", lambda value: NONE if is_zero(value) else Optional(value)),
    ),
    "optional.none": (declare("optional_none: -> optional(V)", lambda: NONE),),
    "value": (declare("optional_value: optional(V). -> V", _value),),
    "hasValue": (declare("optional_hasValue: optional(V). -> bool", lambda optional: optional.present),),
    "or": (declare("optional_or_optional: optional(V)., optional(V) -> optional(V)"),),
    "orValue": (declare("optional_orValue_value: optional(V)., V -> V"),),
    "_?._": (declare("select_optional_field: dyn, string -> optional(V)"),),
    "_[?_]": (
        declare("list_optindex_optional_int: list(V), int -> optional(V)"),
        declare("optional_list_optindex_optional_int: optional(list(V)), int -> optional(V)"),
        declare("map_optindex_optional_value: map(K, V), K -> optional(V)"),
        declare("optional_map_optindex_optional_value: optional(map(K, V)), K -> optional(V)"),
    ),
    "_[_]": (
        declare("optional_list_index_int: optional(list(V)), int -> optional(V)"),
        declare("optional_map_index_value: optional(map(K, V)), K -> optional(V)"),
    ),
    "last": (declare("list_last: list(V). -> optional(V)", lambda values: Optional(values[-1]) if values else NONE),),
    "first": (declare("list_first: list(V). -> optional(V)", lambda values: Optional(values[0]) if values else NONE),),
    "optional.unwrap": (declare("optional_unwrap: list(optional(V)) -> list(V)", unwrap),),
    "unwrapOpt": (declare("optional_unwrapOpt: list(optional(V)). -> list(V)", unwrap),),
}
