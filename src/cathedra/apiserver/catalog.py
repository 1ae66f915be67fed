"""Which resources are served, and in which versions: the definitions, as a release and its flags have them.

The router, discovery, OpenAPI and the in-process transport all ask here, so they cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from cathedra.api.gates import FeatureGates
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.custom.definitions import with_custom_rules
from cathedra.apiserver.routes import Route, routes_of, virtual_routes
from cathedra.kinds.definition import ResourceDefinition, VersionDefinition

__all__ = ["Catalog", "UnknownAPIGroup", "served_definitions"]

_STABILITY: Final = re.compile(r"v[0-9]+(alpha|beta)?[0-9]*")


class UnknownAPIGroup(ValueError):
    """The runtime configuration names a group of which nothing is known."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"unknown api groups {','.join(self.names)}")


def served_definitions(
    definitions: Iterable[ResourceDefinition[Any]], gates: FeatureGates, runtime_config: dict[str, bool]
) -> tuple[ResourceDefinition[Any], ...]:
    """The definitions with the versions that are served: a release's defaults, changed by ``runtime_config``
    (``group/version`` → on or off; ``api/all``, ``api/ga``, ``api/beta`` and ``api/alpha`` stand for many).

    Raises:
        UnknownAPIGroup: it speaks of a group that does not exist. A version that a group does not have is passed over,
            because an older or newer release may have it.
    """
    definitions = tuple(definitions)
    groups = {definition.group for definition in definitions} | {"api"}
    if unknown := sorted(name for name in runtime_config if name.rpartition("/")[0] not in groups):
        raise UnknownAPIGroup(unknown)
    served = []
    for definition in definitions:
        if definition.gate and not gates.get(definition.gate, False):
            continue
        versions = tuple(v for v in definition.versions if _served(definition, v, runtime_config))
        if versions:
            served.append(with_custom_rules(replace(definition, versions=versions)))
    return tuple(served)


def _served(definition: ResourceDefinition[Any], version: VersionDefinition, runtime_config: dict[str, bool]) -> bool:
    stability = _STABILITY.fullmatch(version.name)
    stage = (stability and stability[1]) or "ga"
    for name in (_group_version(definition, version), f"api/{stage}", "api/all"):
        if name in runtime_config:
            return runtime_config[name]
    return version.served_by_default


def _group_version(definition: ResourceDefinition[Any], version: VersionDefinition) -> str:
    return f"{definition.group}/{version.name}" if definition.group else version.name


class Catalog:
    """The served definitions, found by group, version and resource. Custom resources come and go."""

    def __init__(self, definitions: Iterable[ResourceDefinition[Any]]) -> None:
        self._definitions: dict[GroupResource, ResourceDefinition[Any]] = {}
        self._served: dict[tuple[str, str, str], tuple[ResourceDefinition[Any], VersionDefinition]] = {}
        self._routes: dict[tuple[str, str, str, str], Route] = {route.key: route for route in virtual_routes()}
        self._edition: dict[GroupResource, int] = {}
        self.generation = 0
        """Counts changes, so that discovery and OpenAPI know when to be made anew."""
        for definition in definitions:
            self.add(definition)

    def __iter__(self) -> Iterator[ResourceDefinition[Any]]:
        return iter(tuple(self._definitions.values()))

    def add(self, definition: ResourceDefinition[Any]) -> None:
        """Serve one more, or the same in another form."""
        self.remove(definition.group_resource)
        self._definitions[definition.group_resource] = definition
        self._edition[definition.group_resource] = self._edition.get(definition.group_resource, 0) + 1
        for version in definition.versions:
            self._served[definition.group, version.name, definition.plural] = (definition, version)
            self._routes |= {route.key: route for route in routes_of(definition, version)}
        self.generation += 1

    def remove(self, resource: GroupResource) -> None:
        """Stop serving a resource."""
        definition = self._definitions.pop(resource, None)
        if definition is None:
            return
        for version in definition.versions:
            self._served.pop((definition.group, version.name, definition.plural), None)
            for route in routes_of(definition, version):
                self._routes.pop(route.key, None)
        self.generation += 1

    def fingerprint(self, path: str) -> str:
        """What changes when the document of a path (``apis/apps/v1``, ``apis``) does: the resources it is about, and
        which edition of them."""
        parts = path.split("/")
        group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
        everything = path in {"apis", "version"}
        return " ".join(
            f"{d.plural}.{d.group}@{self._edition[d.group_resource]}:{','.join(v.name for v in d.versions)}"
            for d in sorted(self, key=lambda d: (d.group, d.plural))
            if everything or d.group == group
        )

    def find(self, group: str, version: str, resource: str) -> tuple[ResourceDefinition[Any], VersionDefinition] | None:
        """The definition and version of that name, if served."""
        return self._served.get((group, version, resource))

    def route(self, group: str, version: str, resource: str, subresource: str = "") -> Route | None:
        """The route of that resource or sub-resource, if served."""
        return self._routes.get((group, version, resource, subresource))

    def routes(self) -> tuple[Route, ...]:
        """Every route that is served."""
        return tuple(self._routes.values())

    def definition(self, resource: GroupResource) -> ResourceDefinition[Any] | None:
        """The definition of a resource, if served."""
        return self._definitions.get(resource)

    def has_group(self, group: str) -> bool:
        """Whether any resource of the group is served."""
        return any(definition.group == group for definition in self._definitions.values())

    def has_group_version(self, group: str, version: str) -> bool:
        """Whether any resource of the group is served in that version."""
        return any(key[0] == group and key[1] == version for key in self._served)
