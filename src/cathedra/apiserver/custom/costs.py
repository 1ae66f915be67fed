"""Cost estimates of the CEL rules of a definition, by which Kubernetes accepts or refuses it.

A rule's estimate depends on the largest values that it can walk over. The schema bounds them (``maxItems``,
``maxProperties``, ``maxLength``). Otherwise the largest request does, by the number of the smallest possible items
that fit into it. The cost of a rule is multiplied by the number of its evaluations in one object, which the containers
around it bound in the same way (docs/spec/apimachinery.md §17; the limits are those of apiextensions-apiserver).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from cathedra.apiserver.custom.schema import Schema

EXPRESSION_LIMIT: Final = 10_000_000
"""The largest estimate of one expression, times the number of its evaluations."""
TOTAL_LIMIT: Final = 100_000_000
"""The largest sum of the estimates of one schema."""
LARGEST: Final = 2**64 - 1
_REQUEST: Final = 3 * 1024 * 1024
_STRING: Final = 2
_SCALARS: Final = {"boolean": 4, "number": 1, "integer": 1}
"""The fewest bytes that a value takes in JSON."""
_TIMES: Final = {"duration": (3, 32), "date": (12, 12), "date-time": (21, 32)}
"""Format → fewest bytes, most characters."""
_LISTED: Final = 4


class Extent(msgspec.Struct, frozen=True):
    """The size of values of a schema: at most ``most`` elements or characters, at least ``fewest`` bytes in JSON."""

    most: int = 0
    fewest: int = 2
    fields: dict[str, Extent] = msgspec.field(default_factory=dict)
    key: Extent | None = None
    element: Extent | None = None

    @property
    def repetitions(self) -> int:
        """Return the number of such values that fit into the largest request."""
        return _REQUEST // (self.fewest + 1)

    def at(self, path: tuple[str, ...]) -> int | None:
        """Return the largest size of what is found under a path that begins with the variable's name; None if
        unknown."""
        found: Extent | None = self
        for name in path[1:]:
            if found is None:
                return None
            if name in ("@items", "@values"):
                found = found.element
            elif name == "@keys":
                found = found.key
            else:
                found = found.fields.get(name)
        return None if found is None else found.most


def extent_of(schema: Schema, escape: Any, *, root: bool = False) -> Extent | None:
    """Return the extent of the values of ``schema``; None if expressions do not see them. ``escape`` gives the name by
    which expressions know a field."""
    source = schema.source
    if schema.int_or_string:
        return Extent(_most_characters(source, None), 1)
    if schema.type == "array":
        return _extent_of_list(schema, escape)
    if schema.type == "object" or root:
        if schema.additional is not None and schema.additional.source:
            return _extent_of_map(schema, schema.additional, escape)
        return _extent_of_object(schema, escape, root=root or schema.embedded)
    if schema.type == "string":
        return _extent_of_string(source)
    least = _SCALARS.get(schema.type)
    return None if least is None else Extent(0, least)


def _extent_of_list(schema: Schema, escape: Any) -> Extent | None:
    element = extent_of(schema.items, escape) if schema.items is not None else None
    if element is None:
        return None
    given = schema.source.get("maxItems")
    most = max(given, 0) if given is not None else (_REQUEST - 2) // (element.fewest + 1)
    return Extent(most, element=element)


def _extent_of_map(schema: Schema, values: Schema, escape: Any) -> Extent | None:
    element = extent_of(values, escape)
    if element is None:
        return None
    given = schema.source.get("maxProperties")
    most = max(given, 0) if given is not None else (_REQUEST - 2) // (element.fewest + 6)
    return Extent(most, key=Extent(0, _STRING), element=element)


def _extent_of_object(schema: Schema, escape: Any, *, root: bool) -> Extent:
    required = set(schema.source.get("required", ()))
    fewest = 2
    fields = {}
    for name, inner in schema.properties.items():
        found = extent_of(inner, escape)
        if found is None:
            continue
        fields[escape(name)] = found
        if name in required and not inner.has_default:
            fewest += len(name) + found.fewest + 4
    if root:
        text = Extent(_REQUEST - 2, _STRING)
        fields |= {"kind": text, "apiVersion": text}
        fields["metadata"] = Extent(fields={"name": text, "generateName": text})
    return Extent(0, fewest, fields)


def _extent_of_string(source: Any) -> Extent:
    form = source.get("format")
    if form in _TIMES:
        fewest, most = _TIMES[form]
        return Extent(most, fewest)
    if form == "byte":
        given = source.get("maxLength")
        return Extent(max(given, 0) if given is not None else _REQUEST - 2, _STRING)
    return Extent(_most_characters(source, source.get("enum")), _STRING)


def _most_characters(source: Any, allowed: Any) -> int:
    """Lengths are given in code points, of which each may take four bytes."""
    given = source.get("maxLength")
    if given is not None:
        return 4 * max(int(given), 0)
    if allowed:
        return max((len(one.encode()) for one in allowed if isinstance(one, str)), default=0)
    return _REQUEST - 2


class Cardinality(msgspec.Struct, frozen=True):
    """The number of values of a schema's node in one object; None if a container around it has no bound."""

    most: int | None = 1

    def below(self, schema: Schema) -> Cardinality:
        """That of the places directly inside of ``schema``."""
        if self.most is None:
            return self
        if schema.type == "array":
            given = schema.source.get("maxItems")
        elif schema.type == "object" and schema.source.get("additionalProperties") is not None:
            given = schema.source.get("maxProperties")
        else:
            return self
        return Cardinality(None if given is None else min(self.most * max(int(given), 0), LARGEST))

    def cost(self, estimate: int, extent: Extent) -> int:
        """Return the cost of all evaluations of an expression, each of which costs ``estimate`` at most."""
        times = extent.repetitions if self.most is None else self.most
        return min(estimate * times, LARGEST)


class TotalCost:
    """The estimates of one schema in sum, and the expressions that contribute most to it."""

    def __init__(self) -> None:
        self.total = 0
        self.most_expensive: list[tuple[int, str]] = []
        """Cost and path, the largest first."""

    def add(self, path: str, cost: int) -> None:
        """Enter the expression at ``path``."""
        self.total = min(self.total + cost, LARGEST)
        if cost >= TOTAL_LIMIT // 100:
            self.most_expensive.append((cost, path))
            self.most_expensive.sort(key=lambda one: -one[0])
            del self.most_expensive[_LISTED:]


def excess(what: str, cost: int, limit: int) -> str:
    """Return the text of a refusal."""
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )
