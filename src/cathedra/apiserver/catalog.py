"""The served resources and versions: the definitions of a release, changed by its flags.

The router, discovery, OpenAPI and the in-process transport all use this catalog, so they cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.custom.definitions import with_custom_rules
from cathedra.apiserver.routes import VIRTUAL, Route, VirtualResource, routes_of, virtual_routes
from cathedra.kinds.definition import AnyDefinition, VersionDefinition
from cathedra.releases import FeatureGates
from cathedra.releases.served import lifetime

_STABILITY: Final = re.compile(r"v[0-9]+(alpha|beta)?[0-9]*")


class UnknownAPIGroup(ValueError):
    """The runtime configuration names an unknown group."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"unknown api groups {','.join(self.names)}")


def served_definitions(
    definitions: Iterable[AnyDefinition], gates: FeatureGates, runtime_config: dict[str, bool]
) -> tuple[AnyDefinition, ...]:
    """Return the definitions with their served versions: the defaults of the release, changed by ``runtime_config``
    (``group/version`` → on or off; ``api/all``, ``api/ga``, ``api/beta`` and ``api/alpha`` stand for many).

    Raises:
        UnknownAPIGroup: it speaks of a group that does not exist. A version that a group does not have is passed over,
            because an older or newer release may have it.
    """
    definitions = tuple(definitions)
    groups = {definition.group for definition in definitions} | {virtual.group for virtual in VIRTUAL} | {"api"}
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


def served_virtual(gates: FeatureGates, runtime_config: dict[str, bool]) -> tuple[VirtualResource, ...]:
    """Return the resources without stored objects that a release has and serves."""
    return tuple(
        virtual
        for virtual in VIRTUAL
        if _has(gates.release, virtual)
        and _is_on(virtual.group, virtual.version, runtime_config, otherwise=virtual.served_by_default)
    )


def _has(release: str, virtual: VirtualResource) -> bool:
    releases = lifetime(virtual.group, virtual.version, virtual.kind)
    return releases is None or releases.covers(release)


def _served(definition: AnyDefinition, version: VersionDefinition, runtime_config: dict[str, bool]) -> bool:
    return _is_on(definition.group, version.name, runtime_config, otherwise=version.served_by_default)


def _is_on(group: str, version: str, runtime_config: dict[str, bool], *, otherwise: bool) -> bool:
    stability = _STABILITY.fullmatch(version)
    stage = (stability and stability[1]) or "ga"
    for name in (f"{group}/{version}" if group else version, f"api/{stage}", "api/all"):
        if name in runtime_config:
            return runtime_config[name]
    return otherwise


class Catalog:
    """The served definitions, by group, version and resource. Custom resources are added and removed."""

    def __init__(
        self, definitions: Iterable[AnyDefinition], virtual: tuple[VirtualResource, ...] | None = None
    ) -> None:
        """``virtual`` are the resources without stored objects; None: those of the newest release."""
        self.virtual = virtual if virtual is not None else served_virtual(FeatureGates.for_release(), {})
        self._definitions: dict[GroupResource, AnyDefinition] = {}
        self._served: dict[tuple[str, str, str], tuple[AnyDefinition, VersionDefinition]] = {}
        self._routes: dict[tuple[str, str, str, str], Route] = {
            route.key: route for route in virtual_routes(self.virtual)
        }
        self.by_key: Mapping[tuple[str, str, str, str], Route] = self._routes
        """The served routes, by group, version, resource and sub-resource."""
        self._edition: dict[GroupResource, int] = {}
        self._observers: list[Callable[[], None]] = []
        self._fingerprints: dict[str | None, str] = {}
        self.generation = 0
        """Number of changes; discovery and OpenAPI build their documents again when it differs."""
        for definition in definitions:
            self.add(definition)

    def __iter__(self) -> Iterator[AnyDefinition]:
        return iter(tuple(self._definitions.values()))

    def observe(self, observer: Callable[[], None]) -> None:
        """Call ``observer`` after each change."""
        self._observers.append(observer)

    def add(self, definition: AnyDefinition) -> None:
        """Serve a resource, or another form of it."""
        # A definition with fewer versions must not leave routes of the others behind.
        self.remove(definition.group_resource)
        self._definitions[definition.group_resource] = definition
        self._edition[definition.group_resource] = self._edition.get(definition.group_resource, 0) + 1
        for version in definition.versions:
            # A sub-resource or column may exist in some versions only.
            seen = definition.seen_in(version.name)
            self._served[definition.group, version.name, definition.plural] = (seen, version)
            self._routes |= {route.key: route for route in routes_of(seen, version)}
        self._count()

    def remove(self, resource: GroupResource) -> None:
        """Stop serving a resource."""
        definition = self._definitions.pop(resource, None)
        if definition is None:
            return
        for version in definition.versions:
            self._served.pop((definition.group, version.name, definition.plural), None)
            for route in routes_of(definition, version):
                self._routes.pop(route.key, None)
        self._count()

    def _count(self) -> None:
        self.generation += 1
        # Made when they are next needed: a burst of new definitions costs one computation.
        self._fingerprints = {}
        for observer in self._observers:
            observer()

    def fingerprint(self, path: str) -> str:
        """Return a text that changes whenever the document of a path (``apis/apps/v1``, ``apis``) does: the
        resources in it and their editions."""
        parts = path.split("/")
        group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
        if not self._fingerprints:
            self._fingerprints = self._made_fingerprints()
        return self._fingerprints.get(None if path in {"apis", "version"} else group, "")

    def _made_fingerprints(self) -> dict[str | None, str]:
        """Return the fingerprint of each group, and that of all groups under None."""
        found: dict[str | None, list[str]] = {None: []}
        for d in sorted(self, key=lambda d: (d.group, d.plural)):
            versions = ",".join(v.name for v in d.versions)
            text = f"{d.plural}.{d.group}@{self._edition[d.group_resource]}:{versions}"
            found[None].append(text)
            found.setdefault(d.group, []).append(text)
        return {group: " ".join(texts) for group, texts in found.items()}

    def find(self, group: str, version: str, resource: str) -> tuple[AnyDefinition, VersionDefinition] | None:
        """Return the definition and version of that name, or None."""
        return self._served.get((group, version, resource))

    def route(self, group: str, version: str, resource: str, subresource: str = "") -> Route | None:
        """Return the route of that resource or sub-resource, or None."""
        return self.by_key.get((group, version, resource, subresource))

    def routes(self) -> tuple[Route, ...]:
        """Return all served routes."""
        return tuple(self._routes.values())

    def definition(self, resource: GroupResource) -> AnyDefinition | None:
        """Return the definition of a resource, or None."""
        return self._definitions.get(resource)

    def has_group(self, group: str) -> bool:
        """Return True if any resource of the group is served."""
        return any(definition.group == group for definition in self._definitions.values())
