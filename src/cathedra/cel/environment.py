"""Environments of expressions: variables, object types, functions and macros.

An `Environment` is created once for each kind of expression (selectors, admission policies) and shared by all of them.
`Environment.extend` returns a larger one. It has declarations only; values are passed to each evaluation.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type
from cathedra.cel.library import patches, registry
from cathedra.cel.library.overload import Functions, Overload
from cathedra.cel.syntax import macros
from cathedra.cel.syntax.macros import MacroTable

if TYPE_CHECKING:
    from cathedra.cel.checking.cost import SizeOf

BASE_LIBRARIES = (
    "standard",
    "optional",
    "strings",
    "lists",
    "extended lists",
    "sets",
    "two variables",
    "regex",
    "urls",
    "ip",
    "cidr",
    "quantity",
    "semver",
    "format",
    "authorizer",
)
_MAX_RESOLUTIONS = 4096
_LIBRARY_MACROS: Mapping[str, MacroTable] = {
    "standard": macros.STANDARD,
    "optional": macros.OPTIONALS,
    "two variables": macros.TWO_VARIABLES,
    "extended lists": macros.LISTS,
    "bindings": macros.BINDINGS,
}


class Environment(msgspec.Struct, frozen=True, dict=True):
    """Declarations that expressions may use. ``size_of`` returns the largest size of the value at a path, for the cost
    estimate.

    ``checked_literals`` runs the validators, which also demand one type for all elements of a literal, as Kubernetes
    does everywhere; ``homogeneous`` lets the checker demand it.
    """

    variables: Mapping[str, Type] = msgspec.field(default_factory=dict)
    objects: Mapping[str, Mapping[str, Type]] = msgspec.field(default_factory=dict)
    libraries: tuple[str, ...] = BASE_LIBRARIES
    functions_extra: Functions = msgspec.field(default_factory=dict)
    container: str = ""
    homogeneous: bool = False
    checked_literals: bool = True
    size_of: SizeOf | None = None
    patch_types: bool = False
    """True if patches may be written: ``Object{…}``, ``JSONPatch{…}``."""

    @cached_property
    def macros(self) -> MacroTable:
        """The macros of all libraries."""
        table: dict[tuple[str, int, bool], macros.Expander] = {}
        for name in self.libraries:
            table.update(_LIBRARY_MACROS.get(name, {}))
        return table

    @cached_property
    def functions(self) -> Functions:
        """All functions by name."""
        table: dict[str, tuple[Overload, ...]] = {}
        sources = [registry.LIBRARIES[n] for n in self.libraries if n in registry.LIBRARIES]
        for source in (*sources, self.functions_extra):
            for name, overloads in source.items():
                table[name] = table.get(name, ()) + overloads
        return table

    @cached_property
    def resolutions(self) -> dict[Hashable, tuple[Type, tuple[Overload, ...], int]]:
        """Cache of resolved calls: function and types of arguments → result type, overloads, and the number of type
        variables."""
        return {}

    def remember(self, call: Hashable, result: Type, overloads: tuple[Overload, ...], variables: int) -> None:
        """Enter a call; types are the users', so there is a limit to how many are kept."""
        if len(self.resolutions) >= _MAX_RESOLUTIONS:
            self.resolutions.clear()
        self.resolutions[call] = (result, overloads, variables)

    @cached_property
    def type_names(self) -> Mapping[str, Type]:
        """Names that stand for types."""
        names = ("bool", "bytes", "double", "int", "string", "uint", "null_type", "type")
        table = {name: types.BY_NAME[name] for name in names}
        table["list"] = types.list_of(types.DYN)
        table["map"] = types.map_of(types.DYN, types.DYN)
        table |= types.MESSAGES
        table |= {name: types.struct(name) for name in self.objects}
        if "optional" in self.libraries:
            table["optional_type"] = types.opaque("optional_type")
        for name in ("ip", "cidr"):
            if name in self.libraries:
                table[types.BY_NAME[name.upper()].name] = types.BY_NAME[name.upper()]
        return table

    def type_named(self, name: str) -> Type | None:
        """Return the type that a name stands for."""
        found = self.type_names.get(name)
        if found is None and self.patch_types and patches.field_types(name) is not None:
            return types.struct(name)
        return found

    def fields_of(self, name: str) -> Mapping[str, Type] | None:
        """Return the fields of an object or message type; None if there is no such type."""
        found = self.objects.get(name)
        if found is None and self.patch_types:
            found = patches.field_types(name)
        return found if found is not None else types.fields_of(name)

    def candidates(self, name: str) -> tuple[str, ...]:
        """Return the names that ``name`` may mean inside the container, most specific first."""
        if name.startswith("."):
            return (name[1:],)
        if not self.container:
            return (name,)
        parts = self.container.split(".")
        return (*(".".join((*parts[:kept], name)) for kept in range(len(parts), 0, -1)), name)

    def extend(
        self, variables: Mapping[str, Type], objects: Mapping[str, Mapping[str, Type]] | None = None
    ) -> Environment:
        """Return the same with more variables and object types."""
        return Environment(
            {**self.variables, **variables},
            {**self.objects, **(objects or {})},
            self.libraries,
            self.functions_extra,
            self.container,
            self.homogeneous,
            self.checked_literals,
            self.size_of,
            self.patch_types,
        )
