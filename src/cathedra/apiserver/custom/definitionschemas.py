"""Validation of the schema of a custom resource definition: its keywords, defaults and CEL rules.

The order is Kubernetes': errors of structure, or else those of defaults, then those of keywords, then those of rules.
Rules are compiled only if the schema is structural with valid defaults, for only then do its values have CEL types.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cathedra.api.field import ErrorList, FieldError
from cathedra.apiserver.custom.columns import check_field_path
from cathedra.apiserver.custom.goforms import props_form
from cathedra.apiserver.custom.rules import compile_rules
from cathedra.apiserver.custom.schema import MAX_DEPTH, Schema, deeper_than, read_schema
from cathedra.apiserver.custom.structural import Source, is_unsupported, listed, mapped, structural_errors
from cathedra.apiserver.custom.validation import Validator

Interrupted = Callable[[], bool]

SET_ITEMS: Final = "set-items"
LIST_KEYS: Final = "list-keys"
UNPRUNED: Final = "unpruned-default"
KNOWN_TYPE: Final = "known-type"
RULE_COST: Final = "rule-cost"
RATCHETED: Final = frozenset({SET_ITEMS, LIST_KEYS, UNPRUNED, KNOWN_TYPE})
"""Origins of errors that an update may keep if the previous definition has errors of the same origin: Kubernetes came
to refuse them after such definitions had been stored."""

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_TOO_DEEP: Final = f"schemas may not be nested more deeply than {MAX_DEPTH} levels"
_NEWLINES: Final = re.compile(r"[\n\r]")
_META: Final = frozenset({"metadata", "kind", "apiVersion"})
_AT_ROOT: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength",
    "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties",
    "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
"""Go's names of the fields of a root schema beside a status, which is validated by its own part of the schema."""
_BESIDE_STATUS: Final = "at the root of the schema if the status subresource is enabled"
_GO_NAMES: Final = {
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """Position of a schema among the schemas around it."""

    no_default: str = ""
    """Reason for which it cannot have a default, the text after «must not be set»; empty if it can have one."""
    in_meta: bool = False
    """True inside of the metadata of a resource."""


def schema_errors(source: object, where: str, interrupted: Interrupted, *, with_status: bool) -> ErrorList:
    """Return the errors of the schema at ``where``; ``with_status``: its versions have a sub-resource ``status``."""
    errors = ErrorList()
    if not isinstance(source, Mapping):
        errors.invalid(where, None, "must be an object")
        return errors
    # Our own bound: walks over schemas are recursive.
    if deeper_than(MAX_DEPTH, source):
        errors.forbidden(where, _TOO_DEEP)
        return errors
    if with_status:
        _root_beside_status(errors, source, where)
    if source.get("nullable"):
        errors.forbidden(f"{where}.nullable", "nullable cannot be true at the root")
    # A schema with such keywords is refused below. It has no structural form, so its defaults and rules cannot be
    # checked.
    supported = not is_unsupported(source)
    found = structural_errors(source, where) if supported else ErrorList()
    schema = read_schema(source) if supported and not found else None
    if schema is not None:
        found = ErrorList(_default_errors(schema, where, in_meta=False, interrupted=interrupted))
    errors.extend(found)
    keywords = ErrorList(_keyword_errors(source, where, _Place(), root=True))
    errors.extend(keywords)
    if schema is not None and not found:
        errors.extend(_rule_errors(schema, where, keywords, interrupted))
    return errors


def _root_beside_status(errors: ErrorList, source: Source, where: str) -> None:
    for name, value in source.items():
        if value in (None, "", False, [], {}):
            continue
        if name == "type":
            if value != "object":
                errors.invalid(f"{where}.type", value, f'only "object" is allowed as the type {_BESIDE_STATUS}')
                return
        elif _GO_NAMES.get(name, name[:1].upper() + name[1:]) not in _AT_ROOT:
            words = f"only [{' '.join(_AT_ROOT)}] fields are allowed {_BESIDE_STATUS}"
            errors.invalid(where, props_form(source), words)
            return


# --- defaults


def _default_errors(schema: Schema, path: str, *, in_meta: bool, interrupted: Interrupted) -> Iterator[FieldError]:
    """Yield the errors of the defaults of a structural schema. Those below ``additionalProperties`` are not allowed."""
    in_meta = in_meta and not schema.embedded
    if schema.has_default and schema.default is not None:
        yield from _one_default(schema, f"{path}.default", in_meta=in_meta, interrupted=interrupted)
    if schema.items is not None:
        yield from _default_errors(schema.items, f"{path}.items", in_meta=in_meta, interrupted=interrupted)
    root = ".properties[" not in path and path.endswith("openAPIV3Schema")
    for name, inner in schema.properties.items():
        meta = in_meta or ((schema.embedded or root) and name in _META)
        yield from _default_errors(inner, f"{path}.properties[{name}]", in_meta=meta, interrupted=interrupted)


def _one_default(schema: Schema, path: str, *, in_meta: bool, interrupted: Interrupted) -> Iterator[FieldError]:
    # A default gets into objects of every request, and into those read from the store, so it must be valid by itself:
    # pruned, of its type, and within its own rules.
    value = schema.default
    if not in_meta:
        unknown: list[str] = []
        schema.pruned(value, problems=unknown)
        if unknown:
            made = ErrorList()
            made.invalid(path, value, "must not have unknown fields")
            yield dataclasses.replace(made[0], origin=UNPRUNED)
    found = Validator(schema).errors(value, "")
    if not found:
        rules, faults = compile_rules(schema, interrupted)
        found = ErrorList() if faults else rules.broken(value, None, interrupted)
    for error in found:
        below = f"{path}.{error.field}" if error.field and error.field != "<nil>" else path
        yield dataclasses.replace(error, field=below)


# --- keywords


def _keyword_errors(source: Source, path: str, place: _Place, *, root: bool = False) -> Iterator[FieldError]:
    errors = ErrorList()
    _unsupported(errors, source, path, place)
    if source.get("uniqueItems"):
        errors.forbidden(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    additional = source.get("additionalProperties")
    if source.get("properties") and additional not in (None, True):
        errors.forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    # The order in which Kubernetes lists the causes: the node, the nodes inside of it, then its extensions.
    yield from errors
    for inner, where, below in _inside(source, path, place, root=root):
        yield from _keyword_errors(inner, where, below)
    own = ErrorList()
    if source.get("x-kubernetes-preserve-unknown-fields") is False:
        own.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    factor = source.get("multipleOf")
    if isinstance(factor, (int, float)) and not factor > 0:
        own.invalid(f"{path}.multipleOf", factor, "must be greater than 0")
    _map_type(own, source, path)
    _list_type(own, source, path)
    _list_keys(own, source, path)
    _items_of_keyed_lists(own, source, path)
    for position, rule in enumerate(source.get("x-kubernetes-validations") or ()):
        _rule(own, source, rule, f"{path}.x-kubernetes-validations[{position}]")
    yield from own


def _inside(source: Source, path: str, place: _Place, *, root: bool) -> Iterator[tuple[Source, str, _Place]]:
    """Yield the schemas one level below with their paths, in Kubernetes' order."""
    additional, items = source.get("additionalProperties"), source.get("items")
    if isinstance(additional, Mapping):
        below = place
        if place.in_meta:
            reason = "inside additionalProperties applying to object metadata"
            below = dataclasses.replace(place, no_default=reason)
        yield additional, f"{path}.additionalProperties", below
    for name, inner in mapped(source, "properties").items():
        below = place
        if (root or source.get("x-kubernetes-embedded-resource")) and name in _META:
            below = dataclasses.replace(place, in_meta=True)
            if root:
                below = dataclasses.replace(below, no_default=f"in top-level {name}")
        yield inner, f"{path}.properties[{name}]", below
    if isinstance(source.get("not"), Mapping):
        yield source["not"], f"{path}.not", place
    for name in ("allOf", "oneOf", "anyOf"):
        for position, inner in enumerate(listed(source, name)):
            yield inner, f"{path}.{name}[{position}]", place
    for name, inner in mapped(source, "definitions").items():
        yield inner, f"{path}.definitions[{name}]", place
    if isinstance(items, Mapping):
        yield items, f"{path}.items", place
    elif isinstance(items, list):
        for position, inner in enumerate(listed(source, "items")):
            yield inner, f"{path}.items[{position}]", place


def _unsupported(errors: ErrorList, source: Source, path: str, place: _Place) -> None:
    kind = source.get("type") or ""
    if kind and kind not in _TYPES:
        made = ErrorList()
        made.string_not_among(f"{path}.type", kind, _TYPES)
        errors.append(dataclasses.replace(made[0], origin=KNOWN_TYPE))
    if source.get("default") is not None and place.no_default:
        errors.forbidden(f"{path}.default", f"must not be set {place.no_default}")
    if source.get("id"):
        errors.forbidden(f"{path}.id", "id is not supported")
    if source.get("additionalItems") is not None:
        errors.forbidden(f"{path}.additionalItems", "additionalItems is not supported")
    for name in ("patternProperties", "definitions"):
        if source.get(name):
            errors.forbidden(f"{path}.{name}", f"{name} is not supported")
    for name in ("dependencies", "$ref"):
        if source.get(name) is not None:
            errors.forbidden(f"{path}.{name}", f"{name} is not supported")
    if kind == "null":
        errors.forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(source.get("items"), list) and source["items"]:
        errors.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_meta and source.get("x-kubernetes-embedded-resource"):
        errors.forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")


def _of_type(errors: ErrorList, source: Source, path: str, wanted: str, extension: str) -> None:
    """Check that a schema with an extension has its type."""
    kind, words = source.get("type") or "", f"must be {wanted} if {extension} is specified"
    if not kind:
        errors.required(f"{path}.type", words)
    elif kind != wanted:
        errors.invalid(f"{path}.type", kind, words)


def _map_type(errors: ErrorList, source: Source, path: str) -> None:
    given = source.get("x-kubernetes-map-type")
    if given is None:
        return
    _of_type(errors, source, path, "object", "x-kubernetes-map-type")
    if given not in {"atomic", "granular"}:
        errors.string_not_among(f"{path}.x-kubernetes-map-type", given, ["atomic", "granular"])


def _list_type(errors: ErrorList, source: Source, path: str) -> None:
    given, items = source.get("x-kubernetes-list-type"), source.get("items")
    if given is None:
        return
    _of_type(errors, source, path, "array", "x-kubernetes-list-type")
    if given == "set" and source.get("type") == "array" and isinstance(items, Mapping):
        inner = {"array": "list", "object": "map"}.get(items.get("type") or "", "")
        own = items.get(f"x-kubernetes-{inner}-type")
        # An unset type of a list is atomic already; that of a map is granular.
        if inner and own != "atomic" and not (inner == "list" and own is None):
            made = ErrorList()
            # Kubernetes shows the type of the list in both cases.
            shown = items.get("x-kubernetes-list-type")
            words = "must be atomic as item of a list with x-kubernetes-list-type=set"
            made.invalid(f"{path}.items.x-kubernetes-{inner}-type", shown, words)
            errors.append(dataclasses.replace(made[0], origin=SET_ITEMS))
    if given not in {"atomic", "set", "map"}:
        errors.string_not_among(f"{path}.x-kubernetes-list-type", given, ["atomic", "set", "map"])


def _list_keys(errors: ErrorList, source: Source, path: str) -> None:
    given, items = source.get("x-kubernetes-list-type"), source.get("items")
    keys = _texts(source, "x-kubernetes-list-map-keys")
    if keys and given != "map":
        words = "must be map if x-kubernetes-list-map-keys is non-empty"
        if given is None:
            errors.required(f"{path}.x-kubernetes-list-type", words)
        else:
            errors.invalid(f"{path}.x-kubernetes-list-type", given, words)
    if given != "map":
        return
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        errors.required(where, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        errors.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if isinstance(items, list):
        errors.invalid(f"{path}.items", items, "must only have a single schema if x-kubernetes-list-type is map")
    if not isinstance(items, Mapping):
        return
    if items.get("type") != "object":
        words = "must be object if parent array's x-kubernetes-list-type is map"
        errors.invalid(f"{path}.items.type", items.get("type") or "", words)
        return
    fields = mapped(items, "properties")
    for position, key in enumerate(keys):
        if key not in fields:
            errors.invalid(where, keys, "entries must all be names of item properties")
        elif fields[key].get("type") in {"array", "object"}:
            # Kubernetes shows the type of the item, not that of the key.
            words = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            errors.invalid(f"{path}.items.properties[{key}].type", "object", words)
        if key in keys[:position]:
            errors.invalid(where, keys, "must not contain duplicate entries")


def _items_of_keyed_lists(errors: ErrorList, source: Source, path: str) -> None:
    """Check that elements of sets and keyed lists are never null, and that keys always have a value."""
    given, items = source.get("x-kubernetes-list-type"), source.get("items")
    if given not in {"set", "map"} or not isinstance(items, Mapping):
        return
    made = ErrorList()
    if items.get("nullable"):
        made.forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {given}")
    if given == "map":
        fields, required = mapped(items, "properties"), _texts(items, "required")
        for key in _texts(source, "x-kubernetes-list-map-keys"):
            if key not in fields:
                continue
            where, words = f"{path}.items.properties[{key}]", "this property is in x-kubernetes-list-map-keys, so it"
            if key not in required and fields[key].get("default") is None:
                made.required(f"{where}.default", f"{words} must have a default or be a required property")
            if fields[key].get("nullable"):
                made.forbidden(f"{where}.nullable", f"{words} cannot be nullable")
    errors.extend(dataclasses.replace(error, origin=LIST_KEYS) for error in made)


def _texts(source: Source, name: str) -> list[str]:
    return list(source.get(name) or ())


# --- rules


def _rule(errors: ErrorList, source: Source, rule: Mapping[str, Any], path: str) -> None:
    """Check everything of a rule except its expressions."""
    text, message, expression = (rule.get(name) or "" for name in ("rule", "message", "messageExpression"))
    if not text.strip():
        errors.required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        errors.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _NEWLINES.search(message.strip()):
        errors.invalid(f"{path}.message", message, "must not contain line breaks")
    elif _NEWLINES.search(text.strip()) and not message.strip():
        errors.required(f"{path}.message", "message must be specified if rule contains line breaks")
    if expression and not expression.strip():
        errors.required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    reason, below = rule.get("reason"), rule.get("fieldPath") or ""
    if reason is not None and reason not in _REASONS:
        errors.not_supported(f"{path}.reason", reason, _REASONS)
    if not below:
        return
    if not below.strip():
        errors.invalid(f"{path}.fieldPath", below, "must be non-empty if specified")
    if _NEWLINES.search(below):
        errors.invalid(f"{path}.fieldPath", below, "must not contain line breaks")
    if not is_unsupported(source):
        try:
            check_field_path(below, read_schema(source))
        except ValueError:
            errors.invalid(f"{path}.fieldPath", below, "must be a valid path")


def _rule_errors(schema: Schema, where: str, wrong: ErrorList, interrupted: Interrupted) -> Iterator[FieldError]:
    """Yield the errors of rules that do not compile or may cost too much.

    A node with other errors, here or below, has none: its values may have no CEL type.
    """
    for fault in compile_rules(schema, interrupted, where)[1]:
        node, of_rule, _ = fault.path.partition(".x-kubernetes-validations[")
        if of_rule and any(error.field.startswith(f"{where}{node}") for error in wrong):
            continue
        yield FieldError(fault.type, f"{where}{fault.path}", fault.rule, fault.detail, RULE_COST if fault.dear else "")
