"""Type check of a policy's expressions against the schemas of the kinds that it matches (``status.typeChecking``).

At run time objects have no types, so a wrong field name is only found when a request comes. Against a schema it is
found when the policy is written. The result is a warning, because schemas do not declare everything: what a schema
leaves open has type ``dyn``, and a quantity is a string or a number (``TypeChecker`` of
k8s.io/apiserver/pkg/admission/plugin/policy/validating; ``SchemaDeclType`` of k8s.io/apiserver/pkg/cel/common).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.cel import program
from cathedra.cel.admission._declarations import typed_environment
from cathedra.cel.checking import types
from cathedra.cel.checking.types import Kind, Type
from cathedra.cel.environment import Environment
from cathedra.cel.errors import CompileError
from cathedra.cel.fieldnames import escaped, is_writable


class KindSchema(msgspec.Struct, frozen=True):
    """A kind with its schema and what the schema refers to."""

    name: str
    """As warnings have it: ``apps/v1, Kind=Deployment``."""
    kind: str
    schema: Schema
    components: Mapping[str, Schema]


class TypeWarning(msgspec.Struct, frozen=True):
    """Type errors of an expression: the path of its field, and a text with one line per kind."""

    field: str
    text: str


def type_warnings(
    spec: Mapping[str, Any], kinds: Sequence[KindSchema], params: KindSchema | None, mark: str = ""
) -> list[TypeWarning]:
    """Return the type warnings of a policy's spec (plain JSON). ``params`` is the kind of its parameters if its schema
    is known. ``mark`` is appended to the names of kinds in messages, to distinguish the types of several checks."""
    declared = [(kind.name, _environment(spec, kind, params, mark)) for kind in kinds]
    return list(_warnings(spec, declared))


def _warnings(spec: Mapping[str, Any], declared: Sequence[tuple[str, Environment]]) -> Iterator[TypeWarning]:
    for position, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            source = validation.get(field, "")
            if not source and field == "messageExpression":
                continue
            problems = [f"{name}: {problem}\n" for name, known in declared if (problem := _problem(source, known))]
            if problems:
                yield TypeWarning(f"spec.validations[{position}].{field}", "\n".join(problems))


def _environment(spec: Mapping[str, Any], kind: KindSchema, params: KindSchema | None, mark: str) -> Environment:
    """Return the environment for objects of a kind, with the policy's own variables."""
    collected = ObjectTypes()
    own = collected.of_kind(kind.schema, kind.components, f"{kind.kind}{mark}")
    given = None
    if params is not None:
        given = collected.of_kind(params.schema, params.components, f"{params.kind}{mark}")
    known: dict[str, Type] = {}
    for variable in spec.get("variables") or ():
        declared = typed_environment(own, given, collected.objects, known)
        known[variable["name"]] = _composed(_type(variable["expression"], declared))
    return typed_environment(own, given, collected.objects, known)


def _type(source: str, declared: Environment) -> Type:
    try:
        return program.compile_expression(source, declared).type
    except CompileError:
        return types.DYN


def _composed(found: Type) -> Type:
    """Return the type of a variable for the expressions that use it: types of objects are not passed on."""
    if found.kind is Kind.LIST:
        return types.list_of(_composed(found.params[0]))
    if found.kind is Kind.MAP:
        return types.map_of(_composed(found.params[0]), _composed(found.params[1]))
    return types.DYN if found.kind in {Kind.STRUCT, Kind.OPAQUE} else found


def _problem(source: str, declared: Environment) -> str:
    try:
        program.compile_expression(source, declared)
    except CompileError as error:
        text = error.text.removeprefix("compilation failed: ")
        return text if error.type != "InternalError" else f"type checking error: {text}"
    return ""


_REFERENCE: Final = "#/components/schemas/"
_TEXT: Final = {"type": "string"}
_METADATA: Final = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_SCALARS: Final = {"boolean": types.BOOL, "number": types.DOUBLE, "integer": types.INT}
_TEXTS: Final = {
    "byte": types.BYTES,
    "duration": types.DURATION,
    "date": types.TIMESTAMP,
    "date-time": types.TIMESTAMP,
}

Schema = Mapping[str, Any]


class ObjectTypes(msgspec.Struct, frozen=True):
    """Collects the object types of one environment, by name."""

    objects: dict[str, dict[str, Type]] = msgspec.field(default_factory=dict)

    def of_kind(self, schema: Schema, components: Mapping[str, Schema], name: str) -> Type | None:
        """Return the type of a kind's objects, under that name; ``components`` are what references lead to. None if
        expressions cannot know it."""
        return self._of(schema, components, name, frozenset(), root=True)

    def _of(
        self, schema: Schema, components: Mapping[str, Schema], name: str, seen: frozenset[str], *, root: bool
    ) -> Type | None:
        schema, seen = _resolved(schema, components, seen)
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return types.DYN
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        if root:
            properties = _with_metadata(properties, components)
        kind = schema.get("type", "")
        if kind == "string":
            return _TEXTS.get(schema.get("format", ""), types.STRING)
        if kind == "array":
            element = self._inner(schema.get("items"), components, f"{name}.@idx", seen)
            return types.list_of(element) if element is not None else None
        if kind != "object":
            return _SCALARS.get(kind)
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            value = self._inner(values, components, f"{name}.@elem", seen)
            return types.map_of(types.STRING, value) if value is not None else None
        self.objects[name] = {
            escaped(one): found
            for one, inner in properties.items()
            if is_writable(one)
            and (found := self._inner(inner, components, f"{name}.{escaped(one)}", seen)) is not None
        }
        return types.struct(name)

    def _inner(
        self, schema: Schema | None, components: Mapping[str, Schema], name: str, seen: frozenset[str]
    ) -> Type | None:
        if schema is None:
            return None
        return self._of(schema, components, name, seen, root=bool(schema.get("x-kubernetes-embedded-resource")))


def _resolved(schema: Schema, components: Mapping[str, Schema], seen: frozenset[str]) -> tuple[Schema, frozenset[str]]:
    """Follow references, and return the schema and all references seen. A reference that leads back to one of them
    yields an object of which nothing more is known."""
    while reference := _reference(schema):
        if reference in seen:
            return {"type": "object"}, seen
        seen |= {reference}
        schema = components.get(reference.removeprefix(_REFERENCE), {})
    return schema, seen


def _reference(schema: Schema) -> str:
    """Return the reference of a schema, also if it is wrapped to carry a description; "" if there is none."""
    if "$ref" in schema:
        return str(schema["$ref"])
    return next((found for one in schema.get("allOf") or () if (found := _reference(one))), "")


def _with_metadata(properties: Mapping[str, Schema], components: Mapping[str, Schema]) -> Mapping[str, Schema]:
    """Return the fields with those that every object has: kind, apiVersion, and in metadata name and generateName."""
    metadata, _ = _resolved(properties.get("metadata") or {}, components, frozenset())
    known: Mapping[str, Schema] = metadata.get("properties") or {}
    if {"kind", "apiVersion"} <= set(properties) and {"name", "generateName"} <= set(known):
        return properties
    return {**properties, "kind": _TEXT, "apiVersion": _TEXT, "metadata": _METADATA}
