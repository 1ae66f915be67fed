"""Custom kinds that this server serves: each accepted definition has an entry in the catalog and a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionNames
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.custom.conversion import Caller
from cathedra.apiserver.custom.kinds import kind_of_definition
from cathedra.apiserver.custom.objects import CustomObject, content, normalized, stored_version, with_content
from cathedra.apiserver.registry.registry import Registry
from cathedra.kinds.definition import AnyDefinition
from cathedra.semantics.conditions import is_true

_NAMES: Final = (
    ("plural", "PluralConflict", "resources"),
    ("singular", "SingularConflict", "resources"),
    ("short_names", "ShortNamesConflict", "resources"),
    ("kind", "KindConflict", "kinds"),
    ("list_kind", "ListKindConflict", "kinds"),
)
"""Field of the names, reason of its conflict, and with what it may conflict, in the order in which they are checked."""


def is_established(obj: CustomResourceDefinition) -> bool:
    """Return True if the definition has the condition Established."""
    return is_true(obj.status.conditions or (), "Established")


class ServedDefinitions:
    """The definitions of custom resources that are served, by name."""

    def __init__(self, registry: Registry, catalog: Catalog, caller: Caller) -> None:
        """``caller`` reaches conversion webhooks."""
        self._registry = registry
        self._catalog = catalog
        self._caller = caller
        self._served: dict[str, tuple[int, GroupResource]] = {}
        """Name → generation, resource."""

    def resource_of(self, name: str) -> GroupResource | None:
        """Return the resource of a definition; None if it is not served."""
        served = self._served.get(name)
        return None if served is None else served[1]

    def is_current(self, obj: CustomResourceDefinition) -> bool:
        """Return True if this generation of the definition is served."""
        served = self._served.get(obj.metadata.name)
        return served is not None and served[0] == obj.metadata.generation

    def kind_of(self, obj: CustomResourceDefinition) -> AnyDefinition:
        """Return the kind that a definition adds. It may be called in any thread."""
        return kind_of_definition(obj, self._caller)

    def serve(self, obj: CustomResourceDefinition, definition: AnyDefinition | None = None) -> None:
        """Serve a definition, or a new generation of it; then no write on its instances may be under way.
        ``definition`` is its kind, where it has been made.

        Raises:
            StorageError: an instance that the store holds cannot be read.
        """
        definition = definition or self.kind_of(obj)
        if obj.metadata.name in self._served:
            self._registry.redefine_table(definition, _adapted)
        else:
            self._registry.add_table(definition, _adapted)
        self._catalog.add(definition)
        self._served[obj.metadata.name] = (obj.metadata.generation, definition.group_resource)

    def withdraw(self, name: str) -> None:
        """Stop serving a definition."""
        served = self._served.pop(name, None)
        if served is not None:
            self._catalog.remove(served[1])
            self._registry.remove_table(served[1])

    def accepted_names(
        self, obj: CustomResourceDefinition
    ) -> tuple[CustomResourceDefinitionNames, tuple[str, str] | None]:
        """Return the names that do not conflict with those of another kind, and reason and message of the last
        conflict, which is the one that Kubernetes shows; None if all names can be accepted.

        A name with a conflict stays what it was.
        """
        names, own = obj.spec.names, obj.metadata.name
        resources: set[str] = set()
        kinds: set[str] = set()
        for definition in self._others(obj.spec.group, own):
            resources |= {definition.plural, definition.singular, *definition.short_names}
            kinds |= {definition.kind, f"{definition.kind}List"}
        problem: tuple[str, str] | None = None
        accepted = obj.status.accepted_names or CustomResourceDefinitionNames()
        for field, reason, taken in _NAMES:
            wanted = getattr(names, field)
            known = kinds if taken == "kinds" else resources
            conflicts = [name for name in (wanted if field == "short_names" else (wanted,)) if name in known]
            if conflicts:
                problem = reason, f'"{conflicts[0]}" is already in use'
            else:
                accepted = replace(accepted, **{field: wanted})
        return replace(accepted, categories=names.categories), problem

    def _others(self, group: str, own: str) -> Iterator[Any]:
        resource = self.resource_of(own)
        return (one for one in self._catalog if one.group == group and one.group_resource != resource)


def _adapted(definition: Any, obj: CustomObject) -> CustomObject:
    """An instance that was read or made under an earlier definition; it stays of the version that it was stored in,
    where a webhook converts."""
    types = definition.stored_types
    kind = types.get(stored_version(type(obj)), definition.type) if types else definition.type
    return normalized(with_content(kind, obj.metadata, content(obj)))
