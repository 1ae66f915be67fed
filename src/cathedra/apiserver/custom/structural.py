"""Structural schemas: the shape that the schema of a custom resource must have to be pruned and defaulted.

The types of all values stand outside of ``allOf``, ``anyOf``, ``oneOf`` and ``not``; those only narrow values of
fields that are specified outside, too (docs/spec/apimachinery.md §17). The errors are sorted by their text, as in
Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cathedra.api.field import ErrorList
from cathedra.apiserver.custom.formats import pattern_problem

Source = Mapping[str, Any]
"""The JSON of a schema."""

NESTING: Final = ("allOf", "anyOf", "oneOf")
"""Lists of schemas that a value is validated by, and that specify no fields."""
UNSUPPORTED: Final = ("id", "$schema", "$ref", "patternProperties", "dependencies", "definitions")
"""Fields of a schema that no structural schema may have."""

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_FORBIDDEN: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
"""Fields that a schema inside of `NESTING` or ``not`` must not have."""
_SET_WHEN_NOT_NULL: Final = frozenset({"default", "x-kubernetes-list-type", "x-kubernetes-map-type"})
"""Fields that are pointers in Go: an empty text or a zero counts as set."""
_ROOT: Final = "must not be empty at the root"
_ITEM: Final = "must not be empty for specified array items"
_FIELD: Final = "must not be empty for specified object fields"


def mapped(source: Source, name: str) -> dict[str, Source]:
    """Return the schemas of a map such as ``properties``."""
    return {key: one for key, one in (source.get(name) or {}).items() if isinstance(one, Mapping)}


def listed(source: Source, name: str) -> list[Source]:
    """Return the schemas of a list such as ``allOf``."""
    return [one for one in source.get(name) or () if isinstance(one, Mapping)]


def inner_schemas(source: Source) -> Iterator[Source]:
    """Yield every schema one level below."""
    for name in ("properties", "patternProperties", "definitions"):
        yield from mapped(source, name).values()
    for name in NESTING:
        yield from listed(source, name)
    for name in ("not", "additionalProperties", "items"):
        if isinstance(source.get(name), Mapping):
            yield source[name]


def is_unsupported(source: Source) -> bool:
    """Return True if a schema, or one below it, has a field that structural schemas must not have."""
    if any(source.get(name) for name in UNSUPPORTED) or source.get("additionalItems") is not None:
        return True
    if source.get("x-kubernetes-preserve-unknown-fields") is False or isinstance(source.get("items"), list):
        return True
    return any(is_unsupported(one) for one in inner_schemas(source))


def structural_errors(source: Source, where: str) -> ErrorList:
    """Return why the schema at ``where`` is not structural. It has none of the fields that `is_unsupported` finds."""
    errors = ErrorList()
    _node(errors, source, where, _ROOT)
    _completeness(errors, source, source, where, where)
    return ErrorList(sorted(errors, key=str))


def _node(errors: ErrorList, source: Source, path: str, untyped: str) -> None:
    """Check one schema outside of logical operators; ``untyped`` is the text if it has no type."""
    kind = source.get("type") or ""
    items, additional = source.get("items"), source.get("additionalProperties")
    root, embedded = untyped is _ROOT, bool(source.get("x-kubernetes-embedded-resource"))
    if kind == "array" and items is None:
        errors.required(f"{path}.items", "must be specified")
    if isinstance(items, Mapping):
        _node(errors, items, f"{path}.items", _ITEM)
    for name, inner in mapped(source, "properties").items():
        _node(errors, inner, f"{path}.properties[{name}]", _FIELD)
    if root and additional is not None:
        errors.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, Mapping):
        _node(errors, additional, f"{path}.additionalProperties", _FIELD)
    _extensions(errors, source, path)
    _values(errors, source, path, lone=_is_int_or_string(source))
    _type(errors, source, path, untyped)
    if embedded and additional is not None:
        errors.forbidden(f"{path}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set")
    if root and kind and kind != "object":
        errors.invalid(f"{path}.type", kind, "must be object at the root")
    _type_and_metadata(errors, source, path, root=root, checked=root or embedded)
    if embedded and not source.get("x-kubernetes-preserve-unknown-fields") and not source.get("properties"):
        words = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        errors.required(f"{path}.properties", words)


def _type(errors: ErrorList, source: Source, path: str, untyped: str) -> None:
    kind = source.get("type") or ""
    if source.get("x-kubernetes-embedded-resource"):
        words = "must be object if x-kubernetes-embedded-resource is true"
        if not kind:
            errors.required(f"{path}.type", words)
        elif kind != "object":
            errors.invalid(f"{path}.type", kind, words)
    elif not (kind or source.get("x-kubernetes-int-or-string") or source.get("x-kubernetes-preserve-unknown-fields")):
        errors.required(f"{path}.type", untyped)


def _extensions(errors: ErrorList, source: Source, path: str) -> None:
    if not source.get("x-kubernetes-int-or-string"):
        return
    for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if source.get(name):
            errors.invalid(f"{path}.{name}", True, "must be false if x-kubernetes-int-or-string is true")


def _type_and_metadata(errors: ErrorList, source: Source, path: str, *, root: bool, checked: bool) -> None:
    """Check the schemas of ``kind``, ``apiVersion`` and ``metadata`` of a resource."""
    fields = mapped(source, "properties")
    for name in ("kind", "apiVersion"):
        if checked and name in fields and (given := fields[name].get("type") or "") != "string":
            errors.invalid(f"{path}.properties[{name}].type", given, "must be string")
    metadata = fields.get("metadata")
    if metadata is None:
        return
    where = f"{path}.properties[metadata]"
    if checked and (given := metadata.get("type") or "") != "object":
        errors.invalid(f"{where}.type", given, "must be object")
    if not root:
        return
    # Metadata is specified by Kubernetes itself; a definition may only narrow the names.
    rest = {name for name, value in metadata.items() if value not in (None, "", False, {}, [])}
    rest -= {"type", "default"}
    if rest - {"properties"} or not set(mapped(metadata, "properties")) <= {"name", "generateName"}:
        words = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.forbidden(where, words)


def _is_int_or_string(source: Source) -> bool:
    return source.get("anyOf") == _INT_OR_STRING


def _values(errors: ErrorList, source: Source, path: str, *, lone: bool) -> None:
    """Check a schema that narrows values; ``lone``: ``anyOf`` is the usual one of integers and texts, which names
    types."""
    if not lone:
        for position, inner in enumerate(listed(source, "anyOf")):
            _nested(errors, inner, f"{path}.anyOf[{position}]")
    for position, inner in enumerate(listed(source, "allOf")):
        # The first of allOf may have that anyOf instead, so that the schema can have another one.
        _nested(errors, inner, f"{path}.allOf[{position}]", lone=not position and _is_int_or_string(inner))
    for position, inner in enumerate(listed(source, "oneOf")):
        _nested(errors, inner, f"{path}.oneOf[{position}]")
    if isinstance(source.get("not"), Mapping):
        _nested(errors, source["not"], f"{path}.not")
    pattern = source.get("pattern")
    if isinstance(pattern, str) and pattern and (problem := pattern_problem(pattern)):
        errors.invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {problem}")


def _nested(errors: ErrorList, source: Source, path: str, *, lone: bool = False) -> None:
    """Check a schema inside of a logical operator."""
    _values(errors, source, path, lone=lone)
    if isinstance(source.get("items"), Mapping):
        _nested(errors, source["items"], f"{path}.items")
    for name, inner in mapped(source, "properties").items():
        _nested(errors, inner, f"{path}.properties[{name}]")
    for name, words in _FORBIDDEN:
        given = source.get(name)
        is_set = given is not None if name in _SET_WHEN_NOT_NULL else given not in (None, "", False, [])
        if is_set:
            errors.forbidden(f"{path}.{name}", words)
    if "metadata" in mapped(source, "properties"):
        errors.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(errors: ErrorList, source: Source, skeleton: Source | None, where: str, path: str) -> None:
    """Check that every field that a logical operator at ``path`` narrows is specified in ``skeleton``, at ``where``."""
    nested = [
        (inner, f"{path}.{name}[{position}]")
        for name in ("allOf", "anyOf", "oneOf")
        for position, inner in enumerate(listed(source, name))
    ]
    if isinstance(source.get("not"), Mapping):
        nested.append((source["not"], f"{path}.not"))
    for inner, place in nested:
        _specified(errors, inner, skeleton, where, place)


def _specified(errors: ErrorList, source: Source, skeleton: Source | None, where: str, path: str) -> None:
    if skeleton is None:
        errors.required(where, f"because it is defined in {path}")
        return
    _completeness(errors, source, skeleton, where, path)
    if isinstance(source.get("items"), Mapping):
        items = skeleton.get("items")
        _specified(
            errors, source["items"], items if isinstance(items, Mapping) else None, f"{where}.items", f"{path}.items"
        )
    fields = mapped(skeleton, "properties")
    for name, inner in mapped(source, "properties").items():
        _specified(errors, inner, fields.get(name), f"{where}.properties[{name}]", f"{path}.properties[{name}]")
