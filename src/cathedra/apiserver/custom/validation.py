"""Validation of an instance by its structural schema, with the texts of Kubernetes' validator
(docs/spec/apimachinery.md §17).

A schema is compiled into a tree of `Validator` once. `Validator.accepts` decides, stops at the first fault and makes no
texts; almost all values end there, and so do the alternatives of ``anyOf``, ``oneOf`` and ``not``. Only a value that is
refused is walked again to collect its errors, and that walk ends with `MAX_ERRORS`: a body of 3 MiB can have a million
faults, each with the text of a pattern or a path of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from cathedra.api.decoding.reader import Place, place_text
from cathedra.api.field import MAX_TEXT, OMITTED, ErrorList, ErrorType, FieldError
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.status import MAX_CAUSES
from cathedra.apiserver.custom.formats import FORMATS, compiled_pattern
from cathedra.apiserver.custom.schema import Correlated, Schema, identity, read_schema
from cathedra.cel.regex import Regex

MAX_ERRORS: Final = MAX_CAUSES
"""Errors after which the walk over a refused value ends."""
_MORE: Final = "there are more errors, which are not listed"
_STEP: Final = 32
"""Elements of a list between two calls of the interruption."""
_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_CLASSES: Final[Mapping[str, frozenset[type]]] = {
    "": frozenset(_NAMES),
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}
_INT_OR_STRING: Final = frozenset({int, str})
_TYPE: Final = frozenset({"apiVersion", "kind"})
_BITS: Final = {"int32": 31, "int64": 63}

Check = Callable[[], object]
"""Called between pieces of work; it raises an exception to end them."""


def _unlimited() -> None:
    """Return: the walk has no deadline."""


def validate(schema: Schema, value: Any, path: str) -> ErrorList:
    """Return the errors of a value. Paths are as ``spec.list[0]``; "" is the object itself."""
    return Validator(schema).errors(value, path)


class Validator:
    """The assertions of one node of a schema. Parts are compiled when the first value reaches them."""

    __slots__ = (
        "_additional", "_all_of", "_any_of", "_classes", "_enum", "_format", "_items", "_not", "_one_of", "_pattern",
        "_properties", "_required", "schema",
    )  # fmt: skip

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        source = schema.source
        known = _INT_OR_STRING if schema.int_or_string else _CLASSES.get(schema.type, frozenset())
        self._classes = known
        self._any_of = _validators(source, "anyOf")
        self._one_of = _validators(source, "oneOf")
        self._all_of = _validators(source, "allOf")
        self._not = Validator(read_schema(source["not"])) if "not" in source else None
        self._enum = _Enum(source["enum"]) if source.get("enum") is not None else None
        self._pattern: Regex | None = compiled_pattern(source["pattern"]) if "pattern" in source else None
        self._format = FORMATS.get(source.get("format", ""))
        self._required: tuple[str, ...] = tuple(source.get("required", ()))
        self._properties: dict[str, Validator] = {}
        self._additional: Validator | None = None
        self._items: Validator | None = None

    def accepts(self, value: Any, check: Check = _unlimited) -> bool:
        """Return True if the value is valid. ``check`` is called between pieces of work, and may raise an exception."""
        schema = self.schema
        kind = type(value)
        if kind is schema.scalar:
            return True
        if value is None:
            return schema.nullable or not schema.type
        # The cheap checks first: most values end here, and the alternatives of anyOf are each a validation.
        if kind not in self._classes and not self._is_whole(value):
            return False
        if not self._alternatives_accept(value, check):
            return False
        if kind is str:
            accepted = self._text_fits(value)
        elif kind is list:
            accepted = self._list_fits(value, check)
        elif kind is dict:
            accepted = self._map_fits(value, check)
        else:
            accepted = kind is bool or not (_number_problems(schema.source, value) or _overflows(schema.source, value))
        return accepted and (self._enum is None or value in self._enum)

    def errors(
        self,
        value: Any,
        path: str,
        check: Check = _unlimited,
        *,
        names_few: bool = False,
        old: Mapping[str, Any] | None = None,
    ) -> ErrorList:
        """Return the errors of a value, at most `MAX_ERRORS`; one more if some are left out.

        ``names_few``: too few items are reported as such, and not as an invalid value. Of an update, ``old`` is the
        previous value: parts that have not changed since are not errors (Kubernetes' ratcheting).
        """
        found = _Found(check, names_few=names_few)
        if self.accepts(value, check):
            return found.errors
        # Only for a refused value: comparing two objects costs more than accepting one, and almost every update is
        # accepted.
        was = None if old is None else Correlated(self.schema, value, old)
        try:
            self.collect(value, (None, path) if path else None, found, was)
        except _Full:
            # A client must not take the list for complete: it would mend these and then meet others.
            found.errors.append(FieldError(ErrorType.INVALID, "<nil>", OMITTED, _MORE))
        return found.errors

    # --- deciding

    def _is_whole(self, value: Any) -> bool:
        return type(value) is float and self.schema.type == "integer" and value.is_integer()

    def _alternatives_accept(self, value: Any, check: Check) -> bool:
        if self._any_of is not None and not _some_accepts(self._any_of, value, check):
            return False
        if self._one_of is not None and _accepting(self._one_of, value, check, most=2) != 1:
            return False
        if self._all_of is not None and not all(one.accepts(value, check) for one in self._all_of):
            return False
        return self._not is None or not self._not.accepts(value, check)

    def _text_fits(self, value: str) -> bool:
        source, size = self.schema.source, len(value)
        if "maxLength" in source and size > source["maxLength"]:
            return False
        if "minLength" in source and size < source["minLength"]:
            return False
        if "pattern" in source and (self._pattern is None or not self._pattern.matches(value)):
            return False
        return self._format is None or self._format(value)

    def _list_fits(self, value: list[Any], check: Check) -> bool:
        source = self.schema.source
        if "maxItems" in source and len(value) > source["maxItems"]:
            return False
        if "minItems" in source and len(value) < source["minItems"]:
            return False
        if self.schema.list_type != "atomic" and any(True for _ in self._duplicates(value, check)):
            return False
        items = self._element()
        if items is None:
            return True
        scalar = items.schema.scalar
        # Calls of the interruption cost as much as a short element, so there is one for each 32.
        for start in range(0, len(value), _STEP):
            check()
            for item in value[start : start + _STEP]:
                if type(item) is not scalar and not items.accepts(item, check):
                    return False
        return True

    def _map_fits(self, value: JSONObject, check: Check) -> bool:
        source = self.schema.source
        if "maxProperties" in source and len(value) > source["maxProperties"]:
            return False
        if "minProperties" in source and len(value) < source["minProperties"]:
            return False
        check()
        if any(name not in value for name in self._required):
            return False
        for position, (name, item) in enumerate(value.items()):
            if not position % _STEP:
                check()
            inner = self._member(name)
            if inner is not None and not inner.accepts(item, check):
                return False
        return True

    def _member(self, name: str) -> Validator | None:
        """Return the validator of a member of an object; None if every value is valid."""
        found = self._properties.get(name)
        if found is not None:
            return found
        schema = self.schema.properties.get(name)
        if schema is not None:
            found = self._properties[name] = Validator(schema)
            return found
        if self._additional is None and self.schema.additional is not None:
            self._additional = Validator(self.schema.additional)
        return self._additional

    def _element(self) -> Validator | None:
        """Return the validator of the elements of a list; None if every value is valid."""
        if self._items is None and self.schema.items is not None:
            self._items = Validator(self.schema.items)
        return self._items

    def _duplicates(self, value: list[Any], check: Check) -> Iterator[tuple[int, Any]]:
        """Yield position and shown value of repeated elements of a set or keyed list, each value once."""
        seen: dict[Any, int] = {}
        keyed = self.schema.list_type == "map"
        for position, item in enumerate(value):
            if not position % _STEP:
                check()
            if keyed and not isinstance(item, dict):
                continue
            shown = {key: item[key] for key in self.schema.keys if key in item} if keyed else item
            known = identity(shown)
            times = seen[known] = seen.get(known, 0) + 1
            if times == 2:
                yield position, shown

    # --- collecting errors

    def collect(self, value: Any, path: Place | None, found: _Found, was: Correlated | None = None) -> None:
        """Add the errors of a value, unless it is unchanged."""
        schema = self.schema
        found.check()
        if type(value) is schema.scalar or (was is not None and was.is_unchanged):
            return
        if value is None:
            if not schema.nullable and schema.type:
                found.of_type(path, "null", schema.type, "null")
            return
        if type(value) not in self._classes and not self._is_whole(value):
            kind = _NAMES.get(type(value), "null")
            found.of_type(path, kind, schema.type or "integer,string", kind)
            return
        self._collect_alternatives(value, path, found)
        if isinstance(value, str):
            self._collect_text(value, path, found)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            for problem in _number_problems(schema.source, value):
                found.in_body(path, value, problem)
            if _overflows(schema.source, value):
                form = schema.source["format"]
                words = f"Checked value must be of type integer with format {form} in {place_text(path)}"
                found.invalid(path, value, words)
        elif isinstance(value, list):
            self._collect_list(value, path, found, was)
        elif isinstance(value, dict):
            self._collect_map(value, path, found, was)
        if self._enum is not None and value not in self._enum:
            found.not_among(path, value, self._enum.names)

    def _collect_alternatives(self, value: Any, path: Place | None, found: _Found) -> None:
        shown = place_text(path) or "<nil>"
        if self._any_of is not None and not _some_accepts(self._any_of, value, found.check):
            found.invalid(path, "", f'"{shown}" must validate at least one schema (anyOf)')
            # Kubernetes' library adds the errors of one alternative, which show what to change.
            self._any_of[0].collect(value, path, found)
        if self._one_of is not None:
            right = _accepting(self._one_of, value, found.check)
            if right != 1:
                words = "Found none valid" if right == 0 else f"Found {right} valid alternatives"
                found.invalid(path, "", f'"{shown}" must validate one and only one schema (oneOf). {words}')
        for one in self._all_of or ():
            one.collect(value, path, found)
        if self._not is not None and self._not.accepts(value, found.check):
            found.invalid(path, "", f'"{shown}" must not validate the schema (not)')

    def _collect_text(self, value: str, path: Place | None, found: _Found) -> None:
        source, size = self.schema.source, len(value)
        if "maxLength" in source and size > source["maxLength"]:
            found.too_long(path, source["maxLength"])
        if "minLength" in source and size < source["minLength"]:
            found.in_body(path, value, f"should be at least {source['minLength']} chars long")
        # A definition may have been stored before patterns were checked. An invalid one matches nothing.
        if "pattern" in source and (self._pattern is None or not self._pattern.matches(value)):
            found.in_body(path, value, f"should match '{source['pattern']}'")
        if self._format is not None and not self._format(value):
            found.of_type(path, value, source["format"], value)

    def _collect_list(self, value: list[Any], path: Place | None, found: _Found, was: Correlated | None) -> None:
        source = self.schema.source
        if "maxItems" in source and len(value) > source["maxItems"]:
            found.too_many(path, len(value), source["maxItems"])
        if "minItems" in source and len(value) < source["minItems"]:
            found.too_few(path, len(value), source["minItems"], "items")
        wrong = self._without_keys(value) if self.schema.list_type == "map" else None
        # The keys of such a list are not compared.
        compared = self.schema.list_type != "atomic" and wrong is None
        repeated = dict(self._duplicates(value, found.check)) if compared else {}
        items = self._element()
        elements = was.elements if was is not None else None
        for position, item in enumerate(value):
            if position in repeated:
                found.duplicate((path, f"[{position}]"), repeated[position])
            if items is not None:
                before = elements[position] if elements is not None else None
                items.collect(item, (path, f"[{position}]"), found, before)
        if wrong is not None:
            found.invalid((path, f"[{wrong}]"), value[wrong], "must be an object for an array of list-type map")

    @staticmethod
    def _without_keys(value: list[Any]) -> int | None:
        """Return the position of the first element that is no object."""
        return next(
            (place for place, item in enumerate(value) if item is not None and not isinstance(item, dict)), None
        )

    def _collect_map(self, value: JSONObject, path: Place | None, found: _Found, was: Correlated | None) -> None:
        source = self.schema.source
        if "maxProperties" in source and len(value) > source["maxProperties"]:
            found.too_many(path, len(value), source["maxProperties"])
        if "minProperties" in source and len(value) < source["minProperties"]:
            found.too_few(path, len(value), source["minProperties"], "properties")
        for name in self._required:
            if name not in value:
                found.required((path, f".{name}"))
        for name, item in value.items():
            inner = self._member(name)
            if inner is not None:
                # The version and kind of the root are those of the request in both values: their errors stay.
                before = was.field(name) if was is not None and (path is not None or name not in _TYPE) else None
                inner.collect(item, (path, f".{name}"), found, before)


class _Enum:
    """The values that ``enum`` allows."""

    __slots__ = ("_known", "names")

    def __init__(self, allowed: Sequence[Any]) -> None:
        self._known = frozenset(identity(one) for one in allowed)
        self.names = sorted(one if isinstance(one, str) else json.dumps(one) for one in allowed)

    def __contains__(self, value: object) -> bool:
        return identity(value) in self._known


class _Full(Exception):
    """The errors that were found are enough."""


class _Found:
    """The errors of one walk."""

    __slots__ = ("_names_few", "_room", "check", "errors")

    def __init__(self, check: Check, *, names_few: bool = False) -> None:
        self._names_few = names_few
        self.check = check
        self.errors = ErrorList()
        self._room = MAX_TEXT  # a Status shows no more of paths and texts

    def invalid(self, path: Place | None, value: Any, detail: str) -> None:
        """Report a value that breaks a rule."""
        self._add(FieldError(ErrorType.INVALID, place_text(path), value, detail))

    def in_body(self, path: Place | None, value: Any, words: str) -> None:
        """Report a value that breaks a rule, in a text that begins with its path."""
        self.invalid(path, value, f"{place_text(path)} in body {words}")

    def of_type(self, path: Place | None, value: Any, wanted: str, given: str) -> None:
        """Report a value of a wrong type, or a text of a wrong format."""
        words = f'{place_text(path)} in body must be of type {wanted}: "{given}"'
        self._add(FieldError(ErrorType.TYPE_INVALID, place_text(path), value, words))

    def too_few(self, path: Place | None, size: int, least: int, what: str) -> None:
        """Report a list or map with too few elements; ``what`` is the noun for them."""
        if self._names_few:
            items = "item" if least == 1 else "items"
            self._add(FieldError(ErrorType.TOO_FEW, place_text(path), size, f"must have at least {least} {items}"))
        else:
            self.in_body(path, size, f"should have at least {least} {what}")

    def not_among(self, path: Place | None, value: Any, names: Sequence[str]) -> None:
        """Report a value that is none of the known ones."""
        made = ErrorList()
        made.string_not_among(place_text(path), value, names)
        self._add(made[0])

    def duplicate(self, path: Place | None, value: Any) -> None:
        """Report a repeated element."""
        self._add(FieldError(ErrorType.DUPLICATE, place_text(path), value, ""))

    def required(self, path: Place | None) -> None:
        """Report a missing member."""
        self._add(FieldError(ErrorType.REQUIRED, place_text(path), "", ""))

    def too_long(self, path: Place | None, limit: int) -> None:
        """Report a text that is too long."""
        made = ErrorList()
        made.too_long(place_text(path), limit)
        self._add(made[0])

    def too_many(self, path: Place | None, count: int, limit: int) -> None:
        """Report a list or an object with too many members."""
        made = ErrorList()
        made.too_many(place_text(path), count, limit)
        self._add(made[0])

    def _add(self, error: FieldError) -> None:
        self.check()
        if len(self.errors) >= MAX_ERRORS or self._room <= 0:
            raise _Full
        self.errors.append(error)
        self._room -= len(error.field) + len(error.detail) + (len(error.value) if isinstance(error.value, str) else 0)


def _validators(source: Mapping[str, Any], name: str) -> tuple[Validator, ...] | None:
    return tuple(Validator(read_schema(one)) for one in source[name]) if name in source else None


def _some_accepts(alternatives: Iterable[Validator], value: Any, check: Check) -> bool:
    for one in alternatives:
        check()
        if one.accepts(value, check):
            return True
    return False


def _accepting(alternatives: Iterable[Validator], value: Any, check: Check, most: int | None = None) -> int:
    """Return the number of alternatives that accept a value, counted up to ``most``."""
    count = 0
    for one in alternatives:
        check()
        count += one.accepts(value, check)
        if count == most:
            break
    return count


def _number_problems(source: Mapping[str, Any], value: float) -> list[str]:
    """Yield the problems of a number, apart from the bounds of its format."""
    problems: list[str] = []
    if "maximum" in source:
        limit, strict = source["maximum"], source.get("exclusiveMaximum", False)
        if value > limit or (strict and value == limit):
            words = "less than" if strict else "less than or equal to"
            problems.append(f"should be {words} {_plain(limit)}")
    if "minimum" in source:
        limit, strict = source["minimum"], source.get("exclusiveMinimum", False)
        if value < limit or (strict and value == limit):
            words = "greater than" if strict else "greater than or equal to"
            problems.append(f"should be {words} {_plain(limit)}")
    if "multipleOf" in source and not _is_multiple(value, source["multipleOf"]):
        problems.append(f"should be a multiple of {_plain(source['multipleOf'])}")
    return problems


def _overflows(source: Mapping[str, Any], value: float) -> bool:
    """Return True if an integer does not fit into the bits of its format."""
    bits = _BITS.get(source.get("format", ""))
    return bits is not None and isinstance(value, int) and not -(2**bits) <= value < 2**bits


def _is_multiple(value: float, factor: float) -> bool:
    """Return True if a number is a multiple, computed in doubles as in Kubernetes; none is a multiple of zero."""
    try:
        quotient = value / factor if factor >= 1 else 1 / factor * value
        return float(quotient).is_integer()
    except (ZeroDivisionError, OverflowError):
        return False


def _plain(number: Any) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)
