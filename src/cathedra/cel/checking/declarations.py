"""Which functions exist, under which names, for which types: the language and Kubernetes' libraries as one table.

One line per overload, written ``id: argument, … -> result``; a dot after the first argument makes it a method. The ids
are Kubernetes' own, since costs hang on them. The tables are parsed when an environment first needs them
(docs/spec/cel.md §5, §6 and §10.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type

__all__ = ["COMPARISONS", "LIBRARIES", "UNIT_COST", "Overload", "library"]


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function; ``params`` names the type variables of its signature."""

    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    params: tuple[str, ...]


_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _relations(word: str) -> str:
    pairs = [
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
    ]
    return "\n".join(f"{word}_{suffix}: {left}, {right} -> bool" for suffix, left, right in pairs)


_GETTERS: Final = {
    "getFullYear": "year",
    "getMonth": "month",
    "getDayOfYear": "day_of_year",
    "getDayOfMonth": "day_of_month",
    "getDate": "day_of_month_1_based",
    "getDayOfWeek": "day_of_week",
    "getHours": "hours",
    "getMinutes": "minutes",
    "getSeconds": "seconds",
    "getMilliseconds": "milliseconds",
}
_OF_DURATION: Final = ("getHours", "getMinutes", "getSeconds", "getMilliseconds")


def _getter(name: str) -> str:
    unit = _GETTERS[name]
    lines = [
        f"timestamp_to_{unit}: timestamp. -> int",
        f"timestamp_to_{unit}_with_tz: timestamp., string -> int",
    ]
    if name in _OF_DURATION:
        lines.append(f"duration_to_{unit}: duration. -> int")
    return "\n".join(lines)


LIBRARIES: Final[dict[str, dict[str, str]]] = {
    "standard": {
        "_?_:_": "conditional: bool, A, A -> A",
        "_&&_": "logical_and: bool, bool -> bool",
        "_||_": "logical_or: bool, bool -> bool",
        "!_": "logical_not: bool -> bool",
        "@not_strictly_false": "not_strictly_false: bool -> bool",
        "_==_": "equals: A, A -> bool",
        "_!=_": "not_equals: A, A -> bool",
        "_+_": """
            add_bytes: bytes, bytes -> bytes
            add_double: double, double -> double
            add_duration_duration: duration, duration -> duration
            add_duration_timestamp: duration, timestamp -> timestamp
            add_timestamp_duration: timestamp, duration -> timestamp
            add_int64: int, int -> int
            add_list: list(A), list(A) -> list(A)
            add_string: string, string -> string
            add_uint64: uint, uint -> uint""",
        "_/_": """
            divide_double: double, double -> double
            divide_int64: int, int -> int
            divide_uint64: uint, uint -> uint""",
        "_%_": """
            modulo_int64: int, int -> int
            modulo_uint64: uint, uint -> uint""",
        "_*_": """
            multiply_double: double, double -> double
            multiply_int64: int, int -> int
            multiply_uint64: uint, uint -> uint""",
        "-_": """
            negate_double: double -> double
            negate_int64: int -> int""",
        "_-_": """
            subtract_double: double, double -> double
            subtract_duration_duration: duration, duration -> duration
            subtract_int64: int, int -> int
            subtract_timestamp_duration: timestamp, duration -> timestamp
            subtract_timestamp_timestamp: timestamp, timestamp -> duration
            subtract_uint64: uint, uint -> uint""",
        "_<_": _relations("less"),
        "_<=_": _relations("less_equals"),
        "_>_": _relations("greater"),
        "_>=_": _relations("greater_equals"),
        "_[_]": """
            index_list: list(A), int -> A
            index_map: map(A, B), A -> B""",
        "@in": """
            in_list: A, list(A) -> bool
            in_map: A, map(A, B) -> bool""",
        "size": """
            size_bytes: bytes -> int
            bytes_size: bytes. -> int
            size_list: list(A) -> int
            list_size: list(A). -> int
            size_map: map(A, B) -> int
            map_size: map(A, B). -> int
            size_string: string -> int
            string_size: string. -> int""",
        "type": "type: A -> type(A)",
        "bool": """
            bool_to_bool: bool -> bool
            string_to_bool: string -> bool""",
        "bytes": """
            bytes_to_bytes: bytes -> bytes
            string_to_bytes: string -> bytes""",
        "double": """
            double_to_double: double -> double
            int64_to_double: int -> double
            string_to_double: string -> double
            uint64_to_double: uint -> double""",
        "duration": """
            duration_to_duration: duration -> duration
            int64_to_duration: int -> duration
            string_to_duration: string -> duration""",
        "dyn": "to_dyn: A -> dyn",
        "int": """
            int64_to_int64: int -> int
            double_to_int64: double -> int
            duration_to_int64: duration -> int
            string_to_int64: string -> int
            timestamp_to_int64: timestamp -> int
            uint64_to_int64: uint -> int""",
        "string": """
            string_to_string: string -> string
            bool_to_string: bool -> string
            bytes_to_string: bytes -> string
            double_to_string: double -> string
            duration_to_string: duration -> string
            int64_to_string: int -> string
            timestamp_to_string: timestamp -> string
            uint64_to_string: uint -> string""",
        "timestamp": """
            timestamp_to_timestamp: timestamp -> timestamp
            int64_to_timestamp: int -> timestamp
            string_to_timestamp: string -> timestamp""",
        "uint": """
            uint64_to_uint64: uint -> uint
            double_to_uint64: double -> uint
            int64_to_uint64: int -> uint
            string_to_uint64: string -> uint""",
        "contains": "contains_string: string., string -> bool",
        "endsWith": "ends_with_string: string., string -> bool",
        "startsWith": "starts_with_string: string., string -> bool",
        "matches": """
            matches: string, string -> bool
            matches_string: string., string -> bool""",
    }
    | {name: _getter(name) for name in _GETTERS},
    "optional": {
        "optional.of": "optional_of: V -> optional(V)",
        "optional.ofNonZeroValue": "optional_ofNonZeroValue: V -> optional(V)",
        "optional.none": "optional_none: -> optional(V)",
        "value": "optional_value: optional(V). -> V",
        "hasValue": "optional_hasValue: optional(V). -> bool",
        "or": "optional_or_optional: optional(V)., optional(V) -> optional(V)",
        "orValue": "optional_orValue_value: optional(V)., V -> V",
        "_?._": "select_optional_field: dyn, string -> optional(V)",
        "_[?_]": """
            list_optindex_optional_int: list(V), int -> optional(V)
            optional_list_optindex_optional_int: optional(list(V)), int -> optional(V)
            map_optindex_optional_value: map(K, V), K -> optional(V)
            optional_map_optindex_optional_value: optional(map(K, V)), K -> optional(V)""",
        "_[_]": """
            optional_list_index_int: optional(list(V)), int -> optional(V)
            optional_map_index_value: optional(map(K, V)), K -> optional(V)""",
        "last": "list_last: list(V). -> optional(V)",
        "first": "list_first: list(V). -> optional(V)",
        "optional.unwrap": "optional_unwrap: list(optional(V)) -> list(V)",
        "unwrapOpt": "optional_unwrapOpt: list(optional(V)). -> list(V)",
    },
    "strings": {
        "charAt": "string_char_at_int: string., int -> string",
        "indexOf": """
            string_index_of_string: string., string -> int
            string_index_of_string_int: string., string, int -> int""",
        "lastIndexOf": """
            string_last_index_of_string: string., string -> int
            string_last_index_of_string_int: string., string, int -> int""",
        "lowerAscii": "string_lower_ascii: string. -> string",
        "replace": """
            string_replace_string_string: string., string, string -> string
            string_replace_string_string_int: string., string, string, int -> string""",
        "split": """
            string_split_string: string., string -> list(string)
            string_split_string_int: string., string, int -> list(string)""",
        "substring": """
            string_substring_int: string., int -> string
            string_substring_int_int: string., int, int -> string""",
        "trim": "string_trim: string. -> string",
        "upperAscii": "string_upper_ascii: string. -> string",
        "format": "string_format: string., list(dyn) -> string",
        "strings.quote": "strings_quote: string -> string",
        "join": """
            list_join: list(string). -> string
            list_join_string: list(string)., string -> string""",
    },
    "lists": {
        "isSorted": "\n".join(f"list_{t}_is_sorted_bool: list({t}). -> bool" for t in _COMPARABLE),
        "sum": "\n".join(f"list_{t}_sum_{t}: list({t}). -> {t}" for t in ("int", "uint", "double", "duration")),
        "max": "\n".join(f"list_{t}_max_{t}: list({t}). -> {t}" for t in _COMPARABLE),
        "min": "\n".join(f"list_{t}_min_{t}: list({t}). -> {t}" for t in _COMPARABLE),
        "indexOf": "list_a_index_of_int: list(A)., A -> int",
        "lastIndexOf": "list_a_last_index_of_int: list(A)., A -> int",
    },
    "extended lists": {
        "slice": "list_slice: list(T)., int, int -> list(T)",
        "flatten": """
            list_flatten: list(list(T)). -> list(T)
            list_flatten_int: list(dyn)., int -> list(dyn)""",
        "sort": "\n".join(f"list_{t}_sort: list({t}). -> list({t})" for t in _COMPARABLE),
        "@sortByAssociatedKeys": "\n".join(
            f"list_{t}_sortByAssociatedKeys: list(T)., list({t}) -> list(T)" for t in _COMPARABLE
        ),
        "lists.range": "lists_range: int -> list(int)",
        "reverse": "list_reverse: list(T). -> list(T)",
        "distinct": "list_distinct: list(T). -> list(T)",
    },
    "includes": {"includes": "dra_includes_dyn_dyn: dyn., dyn -> bool"},
    "sets": {
        "sets.contains": "list_sets_contains_list: list(T), list(T) -> bool",
        "sets.equivalent": "list_sets_equivalent_list: list(T), list(T) -> bool",
        "sets.intersects": "list_sets_intersects_list: list(T), list(T) -> bool",
    },
    "two variables": {
        "cel.@mapInsert": """
            @mapInsert_map_key_value: map(K, V), K, V -> map(K, V)
            @mapInsert_map_map: map(K, V), map(K, V) -> map(K, V)"""
    },
    "regex": {
        "find": "string_find_string: string., string -> string",
        "findAll": """
            string_find_all_string: string., string -> list(string)
            string_find_all_string_int: string., string, int -> list(string)""",
    },
    "urls": {
        "url": "string_to_url: string -> URL",
        "getScheme": "url_get_scheme: URL. -> string",
        "getHost": "url_get_host: URL. -> string",
        "getHostname": "url_get_hostname: URL. -> string",
        "getPort": "url_get_port: URL. -> string",
        "getEscapedPath": "url_get_escaped_path: URL. -> string",
        "getQuery": "url_get_query: URL. -> map(string, list(string))",
        "isURL": "is_url_string: string -> bool",
    },
    "ip": {
        "ip": "string_to_ip: string -> IP",
        "family": "ip_family: IP. -> int",
        "ip.isCanonical": "ip_is_canonical: string -> bool",
        "isUnspecified": "ip_is_unspecified: IP. -> bool",
        "isLoopback": "ip_is_loopback: IP. -> bool",
        "isLinkLocalMulticast": "ip_is_link_local_multicast: IP. -> bool",
        "isLinkLocalUnicast": "ip_is_link_local_unicast: IP. -> bool",
        "isGlobalUnicast": "ip_is_global_unicast: IP. -> bool",
        "isIP": "is_ip: string -> bool",
        "string": "ip_to_string: IP -> string",
    },
    "cidr": {
        "cidr": "string_to_cidr: string -> CIDR",
        "containsIP": """
            cidr_contains_ip_string: CIDR., string -> bool
            cidr_contains_ip_ip: CIDR., IP -> bool""",
        "containsCIDR": """
            cidr_contains_cidr_string: CIDR., string -> bool
            cidr_contains_cidr: CIDR., CIDR -> bool""",
        "ip": "cidr_ip: CIDR. -> IP",
        "prefixLength": "cidr_prefix_length: CIDR. -> int",
        "masked": "cidr_masked: CIDR. -> CIDR",
        "isCIDR": "is_cidr: string -> bool",
        "string": "cidr_to_string: CIDR -> string",
    },
    "quantity": {
        "quantity": "string_to_quantity: string -> Quantity",
        "isQuantity": "is_quantity_string: string -> bool",
        "sign": "quantity_sign: Quantity -> int",
        "isGreaterThan": "quantity_is_greater_than: Quantity., Quantity -> bool",
        "isLessThan": "quantity_is_less_than: Quantity., Quantity -> bool",
        "compareTo": "quantity_compare_to: Quantity., Quantity -> int",
        "asApproximateFloat": "quantity_get_float: Quantity. -> double",
        "asInteger": "quantity_get_int: Quantity. -> int",
        "isInteger": "quantity_is_integer: Quantity. -> bool",
        "add": """
            quantity_add: Quantity., Quantity -> Quantity
            quantity_add_int: Quantity., int -> Quantity""",
        "sub": """
            quantity_sub: Quantity., Quantity -> Quantity
            quantity_sub_int: Quantity., int -> Quantity""",
    },
    "semver": {
        "semver": """
            string_to_semver: string -> Semver
            string_bool_to_semver: string, bool -> Semver""",
        "isSemver": """
            is_semver_string: string -> bool
            is_semver_string_bool: string, bool -> bool""",
        "isGreaterThan": "semver_is_greater_than: Semver., Semver -> bool",
        "isLessThan": "semver_is_less_than: Semver., Semver -> bool",
        "compareTo": "semver_compare_to: Semver., Semver -> int",
        "major": "semver_major: Semver. -> int",
        "minor": "semver_minor: Semver. -> int",
        "patch": "semver_patch: Semver. -> int",
    },
    "format": {
        "validate": "format-validate: Format., string -> optional(list(string))",
        "format.named": "format-named: string -> optional(Format)",
    }
    | {
        f"format.{name}": f"format.{name}: -> Format"
        for name in (
            "dns1123Label",
            "dns1123Subdomain",
            "dns1035Label",
            "qualifiedName",
            "dns1123LabelPrefix",
            "dns1123SubdomainPrefix",
            "dns1035LabelPrefix",
            "labelValue",
            "uri",
            "uuid",
            "byte",
            "date",
            "datetime",
        )
    },
    "authorizer": {
        "path": "authorizer_path: Authorizer., string -> PathCheck",
        "group": "authorizer_group: Authorizer., string -> GroupCheck",
        "serviceAccount": "authorizer_serviceaccount: Authorizer., string, string -> Authorizer",
        "resource": "groupcheck_resource: GroupCheck., string -> ResourceCheck",
        "subresource": "resourcecheck_subresource: ResourceCheck., string -> ResourceCheck",
        "namespace": "resourcecheck_namespace: ResourceCheck., string -> ResourceCheck",
        "name": "resourcecheck_name: ResourceCheck., string -> ResourceCheck",
        "fieldSelector": "authorizer_fieldselector: ResourceCheck., string -> ResourceCheck",
        "labelSelector": "authorizer_labelselector: ResourceCheck., string -> ResourceCheck",
        "check": """
            pathcheck_check: PathCheck., string -> Decision
            resourcecheck_check: ResourceCheck., string -> Decision""",
        "errored": "decision_errored: Decision. -> bool",
        "error": "decision_error: Decision. -> string",
        "allowed": "decision_allowed: Decision. -> bool",
        "reason": "decision_reason: Decision. -> string",
    },
}


@cache
def library(name: str) -> dict[str, tuple[Overload, ...]]:
    """The functions of one library."""
    return {
        function: tuple(parse(line.strip()) for line in lines.strip().splitlines())
        for function, lines in LIBRARIES[name].items()
    }


def parse(line: str) -> Overload:
    """One overload from its line."""
    id_, _, signature = line.partition(": ")
    arguments, _, result = signature.rpartition("->")
    member, args = False, []
    for text in _split(arguments):
        member = member or text.endswith(".")
        args.append(types.parse(text.removesuffix(".")))
    params: dict[str, None] = {}
    for one in (*args, types.parse(result)):
        _collect(one, params)
    return Overload(id_, member, tuple(args), types.parse(result), tuple(params))


def _split(arguments: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for char in arguments:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return [*parts, current.strip()] if current.strip() else parts


def _collect(one: Type, into: dict[str, None]) -> None:
    if one.kind is types.Kind.PARAM:
        into[one.name] = None
    for inner in one.params:
        _collect(inner, into)


UNIT_COST: Final = frozenset(
    [
        "serviceAccount",
        "path",
        "group",
        "resource",
        "subresource",
        "namespace",
        "name",
        "allowed",
        "reason",
        "error",
        "errored",
        "masked",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "format.named",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
        "getScheme",
        "getHostname",
        "getHost",
        "getPort",
        "getEscapedPath",
        "getQuery",
    ]
)
"""Functions that cost one unit, at run time and by the estimate."""
COMPARISONS: Final = frozenset(
    (
        "equals",
        "not_equals",
        *tuple(f"{op}_{t}" for op in ("less", "greater", "less_equals", "greater_equals") for t in ("string", "bytes")),
    )
)
"""Overloads whose cost follows the shorter operand."""
