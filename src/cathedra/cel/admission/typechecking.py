"""Expressions of a policy checked against the kinds that it is about: what is told in ``status.typeChecking``.

At run time objects have no types, so a field that does not exist is found when a request comes. Against the schemas of
the kinds that a policy names it is found when the policy is written. It only warns: schemas do not say everything
(``TypeChecker`` of k8s.io/apiserver/pkg/admission/plugin/policy/validating).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cathedra.cel import program
from cathedra.cel.admission.declarations import typed_environment
from cathedra.cel.admission.objecttypes import ObjectTypes, Schema
from cathedra.cel.checking import types
from cathedra.cel.checking.types import Kind, Type
from cathedra.cel.environment import Environment
from cathedra.cel.errors import CompileError

__all__ = ["KindSchema", "TypeWarning", "type_warnings"]


class KindSchema(msgspec.Struct, frozen=True):
    """A kind with its schema and what the schema refers to."""

    name: str
    """As warnings have it: ``apps/v1, Kind=Deployment``."""
    kind: str
    schema: Schema
    components: Mapping[str, Schema]


class TypeWarning(msgspec.Struct, frozen=True):
    """What is wrong with an expression: the path of its field, and a text with a line per kind."""

    field: str
    text: str


def type_warnings(
    spec: Mapping[str, Any], kinds: Sequence[KindSchema], params: KindSchema | None, mark: str = ""
) -> list[TypeWarning]:
    """The warnings about a policy's spec (plain JSON); ``params`` is the kind of its parameters, where its schema is
    known. ``mark`` tells the types of one check from those of another, behind the kinds' names in messages."""
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
    """What expressions may mention for objects of a kind, the policy's own variables included."""
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
    """The type of a variable to those who use it: of objects it is not handed on."""
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
