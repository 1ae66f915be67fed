"""The functions and operators of the language itself (docs/spec/cel.md §5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cathedra.cel.library import conversions, operators, regex, times
from cathedra.cel.library.costs import (
    ADDED,
    ADDED_LISTS,
    COMPARED,
    CONTAINED,
    DECODED,
    ENCODED,
    EQUAL,
    MATCHED,
    MEMBERSHIP,
    ONE,
    PREFIXED,
)
from cathedra.cel.library.overload import Functions, Overload, declare
from cathedra.cel.values import NO_SUCH_OVERLOAD, CELValue, Opaque


def _not(value: CELValue) -> CELValue:
    return (not value) if value.__class__ is bool else NO_SUCH_OVERLOAD


def _same(value: CELValue) -> CELValue:
    return value


def _size(value: CELValue) -> int:
    return value.size() if isinstance(value, Opaque) else len(value)


def _matches(text: CELValue, pattern: CELValue) -> CELValue:
    return regex.matches(text, pattern) if pattern.__class__ is str else NO_SUCH_OVERLOAD


def _of_texts(function: Callable[[str, str], bool]) -> Callable[[CELValue, CELValue], CELValue]:
    def checked(left: CELValue, right: CELValue) -> CELValue:
        return function(left, right) if left.__class__ is str and right.__class__ is str else NO_SUCH_OVERLOAD

    return checked


_RELATED: Final = (
    ("bool", "bool", "bool"),
    ("int64", "int", "int"),
    ("int64_double", "int", "double"),
    ("int64_uint64", "int", "uint"),
    ("uint64", "uint", "uint"),
    ("uint64_double", "uint", "double"),
    ("uint64_int64", "uint", "int"),
    ("double", "double", "double"),
    ("double_int64", "double", "int"),
    ("double_uint64", "double", "uint"),
    ("string", "string", "string"),
    ("bytes", "bytes", "bytes"),
    ("timestamp", "timestamp", "timestamp"),
    ("duration", "duration", "duration"),
)


def _relation(word: str, *orders: int) -> tuple[Overload, ...]:
    function = operators.ordered(orders)
    return tuple(
        declare(f"{word}_{suffix}: {left}, {right} -> bool", function, COMPARED if left in ("string", "bytes") else ONE)
        for suffix, left, right in _RELATED
    )


def _getter(unit: str, field: times.Getter) -> tuple[Overload, ...]:
    made = (
        declare(f"timestamp_to_{unit}: timestamp. -> int", field.of_timestamp),
        declare(f"timestamp_to_{unit}_with_tz: timestamp., string -> int", field.of_timestamp),
    )
    if field.of_duration is None:
        return made
    return (*made, declare(f"duration_to_{unit}: duration. -> int", field.of_duration))


OVERLOADS: Final[Functions] = {
    "_?_:_": (declare("conditional: bool, A, A -> A"),),
    "_&&_": (declare("logical_and: bool, bool -> bool"),),
    "_||_": (declare("logical_or: bool, bool -> bool"),),
    "!_": (declare("logical_not: bool -> bool", _not),),
    "@not_strictly_false": (declare("not_strictly_false: bool -> bool"),),
    "_==_": (declare("equals: A, A -> bool", None, EQUAL),),
    "_!=_": (declare("not_equals: A, A -> bool", None, COMPARED),),
    "_+_": (
        declare("add_bytes: bytes, bytes -> bytes", operators.add, ADDED),
        declare("add_double: double, double -> double", operators.add),
        declare("add_duration_duration: duration, duration -> duration", operators.add),
        declare("add_duration_timestamp: duration, timestamp -> timestamp", operators.add),
        declare("add_timestamp_duration: timestamp, duration -> timestamp", operators.add),
        declare("add_int64: int, int -> int", operators.add),
        declare("add_list: list(A), list(A) -> list(A)", operators.add, ADDED_LISTS),
        declare("add_string: string, string -> string", operators.add, ADDED),
        declare("add_uint64: uint, uint -> uint", operators.add),
    ),
    "_/_": (
        declare("divide_double: double, double -> double", operators.divide),
        declare("divide_int64: int, int -> int", operators.divide),
        declare("divide_uint64: uint, uint -> uint", operators.divide),
    ),
    "_%_": (
        declare("modulo_int64: int, int -> int", operators.modulo),
        declare("modulo_uint64: uint, uint -> uint", operators.modulo),
    ),
    "_*_": (
        declare("multiply_double: double, double -> double", operators.multiply),
        declare("multiply_int64: int, int -> int", operators.multiply),
        declare("multiply_uint64: uint, uint -> uint", operators.multiply),
    ),
    "-_": (
        declare("negate_double: double -> double", operators.negate),
        declare("negate_int64: int -> int", operators.negate),
    ),
    "_-_": (
        declare("subtract_double: double, double -> double", operators.subtract),
        declare("subtract_duration_duration: duration, duration -> duration", operators.subtract),
        declare("subtract_int64: int, int -> int", operators.subtract),
        declare("subtract_timestamp_duration: timestamp, duration -> timestamp", operators.subtract),
        declare("subtract_timestamp_timestamp: timestamp, timestamp -> duration", operators.subtract),
        declare("subtract_uint64: uint, uint -> uint", operators.subtract),
    ),
    "_<_": _relation("less", -1),
    "_<=_": _relation("less_equals", -1, 0),
    "_>_": _relation("greater", 1),
    "_>=_": _relation("greater_equals", 1, 0),
    "_[_]": (
        declare("index_list: list(A), int -> A"),
        declare("index_map: map(A, B), A -> B"),
    ),
    "@in": (
        declare("in_list: A, list(A) -> bool", operators.is_in, MEMBERSHIP),
        declare("in_map: A, map(A, B) -> bool", operators.is_in),
    ),
    "size": (
        declare("size_bytes: bytes -> int", _size),
        declare("bytes_size: bytes. -> int", _size),
        declare("size_list: list(A) -> int", _size),
        declare("list_size: list(A). -> int", _size),
        declare("size_map: map(A, B) -> int", _size),
        declare("map_size: map(A, B). -> int", _size),
        declare("size_string: string -> int", _size),
        declare("string_size: string. -> int", _size),
    ),
    "type": (declare("type: A -> type(A)", conversions.to_type, folded=True),),
    "bool": (
        declare("bool_to_bool: bool -> bool", conversions.to_bool, folded=True),
        declare("string_to_bool: string -> bool", conversions.to_bool, folded=True),
    ),
    "bytes": (
        declare("bytes_to_bytes: bytes -> bytes", conversions.to_bytes, folded=True),
        declare("string_to_bytes: string -> bytes", conversions.to_bytes, ENCODED, folded=True),
    ),
    "double": (
        declare("double_to_double: double -> double", conversions.to_double, folded=True),
        declare("int64_to_double: int -> double", conversions.to_double, folded=True),
        declare("string_to_double: string -> double", conversions.to_double, folded=True),
        declare("uint64_to_double: uint -> double", conversions.to_double, folded=True),
    ),
    "duration": (
        declare("duration_to_duration: duration -> duration", conversions.to_duration, folded=True),
        declare("int64_to_duration: int -> duration", conversions.to_duration, folded=True),
        declare("string_to_duration: string -> duration", conversions.to_duration, folded=True),
    ),
    "dyn": (declare("to_dyn: A -> dyn", _same, folded=True),),
    "int": (
        declare("int64_to_int64: int -> int", conversions.to_int, folded=True),
        declare("double_to_int64: double -> int", conversions.to_int, folded=True),
        declare("duration_to_int64: duration -> int", conversions.to_int, folded=True),
        declare("string_to_int64: string -> int", conversions.to_int, folded=True),
        declare("timestamp_to_int64: timestamp -> int", conversions.to_int, folded=True),
        declare("uint64_to_int64: uint -> int", conversions.to_int, folded=True),
    ),
    "string": (
        declare("string_to_string: string -> string", conversions.to_string, folded=True),
        declare("bool_to_string: bool -> string", conversions.to_string, folded=True),
        declare("bytes_to_string: bytes -> string", conversions.to_string, DECODED, folded=True),
        declare("double_to_string: double -> string", conversions.to_string, folded=True),
        declare("duration_to_string: duration -> string", conversions.to_string, folded=True),
        declare("int64_to_string: int -> string", conversions.to_string, folded=True),
        declare("timestamp_to_string: timestamp -> string", conversions.to_string, folded=True),
        declare("uint64_to_string: uint -> string", conversions.to_string, folded=True),
    ),
    "timestamp": (
        declare("timestamp_to_timestamp: timestamp -> timestamp", conversions.to_timestamp, folded=True),
        declare("int64_to_timestamp: int -> timestamp", conversions.to_timestamp, folded=True),
        declare("string_to_timestamp: string -> timestamp", conversions.to_timestamp, folded=True),
    ),
    "uint": (
        declare("uint64_to_uint64: uint -> uint", conversions.to_uint, folded=True),
        declare("double_to_uint64: double -> uint", conversions.to_uint, folded=True),
        declare("int64_to_uint64: int -> uint", conversions.to_uint, folded=True),
        declare("string_to_uint64: string -> uint", conversions.to_uint, folded=True),
    ),
    "contains": (
        declare("contains_string: string., string -> bool", _of_texts(lambda text, part: part in text), CONTAINED),
    ),
    "endsWith": (declare("ends_with_string: string., string -> bool", _of_texts(str.endswith), PREFIXED),),
    "startsWith": (declare("starts_with_string: string., string -> bool", _of_texts(str.startswith), PREFIXED),),
    "matches": (
        declare("matches: string, string -> bool", _matches, pattern=True),
        declare("matches_string: string., string -> bool", _matches, MATCHED, dear=True, pattern=True),
    ),
} | {name: _getter(field.unit, field) for name, field in times.GETTERS.items()}
