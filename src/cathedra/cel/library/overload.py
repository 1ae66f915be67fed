"""One way to call a function, in one record: signature, implementation, cost and estimated cost.

Checker, evaluator, compiler, run-time cost and estimate all read from it, so a function is added in one place: a line
in the table of its library (docs/spec/cel.md §5, §6 and §7).

    "trim": (declare("string_trim: string. -> string", trim, REWRITTEN),),

A signature is written ``id: argument, … -> result``; a dot after the first argument makes it a method. The ids are
Kubernetes' own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type
from cathedra.cel.library.costs import ONE, Cost
from cathedra.cel.values import CELValue


class Overload(msgspec.Struct, frozen=True, eq=False):
    """One way to call a function.

    Attributes:
        id: Kubernetes' name of it.
        member: True for a method; the first of ``args`` is its receiver.
        args: The types of the arguments.
        result: The type of the result.
        params: The names of the type variables in the signature.
        implementation: Takes values, gives a value or a `Failure`; None for what the evaluator does by itself, like
            ``&&`` and indexing.
        cost: Cost of a call, and its estimate.
        dear: A call that takes as long as it costs, or makes more than it costs; so it is charged before it is made.
        folded: A conversion that Kubernetes computes while planning, if the argument is constant.
        pattern: The second argument is a regular expression, compiled while planning if it is constant.
        precomputed: The compiler computes it if its argument is constant.
        code: The code to which it compiles, with ``{0}`` and ``{1}`` for the code of its arguments.
        order: It compares its arguments by this attribute of theirs.
    """

    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    params: tuple[str, ...]
    implementation: Callable[..., CELValue] | None = None
    cost: Cost = ONE
    dear: bool = False
    folded: bool = False
    pattern: bool = False
    precomputed: bool = False
    code: str | None = None
    order: str | None = None


Functions = Mapping[str, tuple[Overload, ...]]
"""Overloads by the name of their function."""


def declare(
    signature: str, implementation: Callable[..., Any] | None = None, cost: Cost = ONE, **traits: Any
) -> Overload:
    """Return the overload with this signature; ``traits`` are the other attributes of `Overload`, by name."""
    id_, _, types_ = signature.partition(": ")
    arguments, _, result = types_.rpartition("->")
    texts = _split(arguments)
    args = tuple(_type(text.removesuffix(".")) for text in texts)
    made = _type(result.strip())
    params: dict[str, None] = {}
    for one in (*args, made):
        _collect(one, params)
    member = any(text.endswith(".") for text in texts)
    return Overload(id_, member, args, made, tuple(params), implementation, cost, **traits)


COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
"""The types that have an order."""

_type = cache(types.parse)


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
