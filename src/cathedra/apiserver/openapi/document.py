"""OpenAPI v3 documents: one per group version, and small ones for the discovery paths around them.

Made with the first request, from the served definitions and the schemas of their types
(docs/spec/apimachinery.md §3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.openapi.operations import JSON_TYPES, Operations, Resource, group_words
from cathedra.apiserver.openapi.schemas import META, Descriptions, OpenAPIObject, Schemas
from cathedra.apiserver.routes import METRICS_GROUP, VirtualResource
from cathedra.kinds.definition import AnyDefinition, VersionDefinition
from cathedra.releases.served import registered_group_versions

STATUS_VERBS = ("get", "patch", "update")
_STREAMS = frozenset({"attach", "exec", "log", "portforward", "proxy"})


def _itself(operations: Any) -> Any:
    return operations


class Documents:
    """Makes the documents of one server. Nothing is kept here: the HTTP side keeps what it serves."""

    def __init__(self, catalog: Catalog, release: str) -> None:
        self._catalog = catalog
        self._release = release
        self._descriptions = Descriptions()
        self._group_versions: tuple[int, list[tuple[str, str]]] = (-1, [])
        """Those of a generation of the catalog: each resource of a document names all of them."""

    def group_versions(self) -> list[tuple[str, str]]:
        """Return every group and version that is served."""
        generation, found = self._group_versions
        # Definitions of custom resources come and go: each change of the catalog has another generation.
        if generation != self._catalog.generation:
            found = self._found_group_versions()
            self._group_versions = (self._catalog.generation, found)
        return found

    def _found_group_versions(self) -> list[tuple[str, str]]:
        found = {(definition.group, version.name) for definition in self._catalog for version in definition.versions}
        # The group of the metrics API is served by the server's own metrics, without schemas.
        virtual = (one for one in self._catalog.virtual if one.group != METRICS_GROUP)
        return sorted(found | {(one.group, one.version) for one in virtual})

    def group_version(
        self, group: str, version: str, check: Callable[[], object] = bool, kept: Callable[[Any], Any] = _itself
    ) -> OpenAPIObject:
        """Return the document of one group version.

        ``check`` is called between resources, and may raise an exception. ``kept`` returns a compact form of the
        operations on a path: those of a thousand resources are millions of Python objects.
        """
        schemas = Schemas(self._release, self._descriptions)
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        paths: OpenAPIObject = {f"{prefix}/": kept(self._resources(group, version, schemas))}
        for definition in sorted(self._catalog, key=lambda one: one.plural):
            served = next((one for one in definition.versions if one.name == version), None)
            if definition.group == group and served is not None:
                check()
                made = self._resource(definition, served, schemas)
                paths |= {path: kept(operations) for path, operations in made.items()}
        for virtual in self._catalog.virtual:
            if (virtual.group, virtual.version) == (group, version):
                paths |= {path: kept(operations) for path, operations in self._virtual(virtual, schemas).items()}
        return self._finished(paths, schemas)

    def around(self, path: str, kept: Callable[[Any], Any] = _itself) -> OpenAPIObject:
        """Return the document of ``api``, ``apis``, ``apis/<group>`` or ``version``."""
        schemas = Schemas(self._release, self._descriptions)
        if path == "version":
            answer: OpenAPIObject = schemas.version()
            name, words, where = "get the version of the server", "getCodeVersion", "/version/"
        else:
            kind = {"api": "APIVersions", "apis": "APIGroupList"}.get(path, "APIGroup")
            answer = schemas.named(META, kind, gvks=[{"group": "", "version": "v1", "kind": kind}])
            group = path.removeprefix("apis").removeprefix("/")
            words = "getCoreAPIVersions" if path == "api" else f"get{group_words(group, '') if group else ''}API"
            words += "" if path == "api" else "Group" if group else "Versions"
            name, where = "get what there is", f"/{path}/"
        operation = {
            "description": name,
            "operationId": words,
            "responses": {
                "200": {"description": "OK", "content": {kind: {"schema": answer} for kind in JSON_TYPES}},
                "401": {"description": "Unauthorized"},
            },
        }
        return self._finished({where: kept({"get": operation})}, schemas)

    def _finished(self, paths: OpenAPIObject, schemas: Schemas) -> OpenAPIObject:
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": f"v{self._release}.0"},
            "paths": dict(sorted(paths.items())),
            "components": {
                "schemas": schemas.components(),
                "securitySchemes": {
                    "BearerToken": {
                        "type": "apiKey",
                        "description": "Bearer Token authentication",
                        "name": "authorization",
                        "in": "header",
                    }
                },
            },
        }

    def _resources(self, group: str, version: str, schemas: Schemas) -> OpenAPIObject:
        gvk = {"group": "", "kind": "APIResourceList", "version": "v1"}
        answer = schemas.named(META, "APIResourceList", gvks=[gvk])
        words = group_words(group, version)
        return {
            "get": {
                "description": "get the resources of this version",
                "operationId": f"get{words}APIResources",
                "responses": {
                    "200": {"description": "OK", "content": {kind: {"schema": answer} for kind in JSON_TYPES}},
                    "401": {"description": "Unauthorized"},
                },
            }
        }

    def _resource(self, definition: AnyDefinition, version: VersionDefinition, schemas: Schemas) -> OpenAPIObject:
        gvk = {"group": definition.group, "kind": definition.kind, "version": version.name}
        custom = getattr(version.type, "openapi", None)
        if custom is None:
            item = schemas.kind(definition.gvk(version.name).api_version, definition.kind, gvks=[gvk])
        else:
            reversed_group = ".".join(reversed(definition.group.split(".")))
            item = schemas.document(f"{reversed_group}.{version.name}.{definition.kind}", custom, gvk)
        shown = Resource(
            gvk,
            definition.plural,
            item,
            namespaced=definition.namespaced,
            returns_deleted=definition.strategy.returns_deleted_object,
            strategic=custom is None,
        )
        operations = self._operations(shown, definition.verbs, schemas)
        paths = operations.paths(definition.verbs)
        for name, strategy in definition.subresources.items():
            if version.subresources is None or name in version.subresources:
                paths |= operations.subresource(name, gvk, item, strategy.verbs)
        if definition.scalable or getattr(version.type, "scale", None) is not None:
            scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
            reference = schemas.kind("autoscaling/v1", "Scale", gvks=[scale])
            paths |= operations.subresource("scale", scale, reference, STATUS_VERBS)
        for connected in definition.connected:
            foreign = {"group": connected.group, "version": connected.version or version.name, "kind": connected.kind}
            if connected.name in _STREAMS:
                paths |= operations.connection(connected.name, foreign, connected.verbs)
                continue
            api_version = f"{connected.group}/{foreign['version']}" if connected.group else foreign["version"]
            reference = schemas.kind(api_version, connected.kind, gvks=[foreign])
            paths |= operations.subresource(connected.name, foreign, reference, connected.verbs)
        return paths

    def _virtual(self, virtual: VirtualResource, schemas: Schemas) -> OpenAPIObject:
        gvk = {"group": virtual.group, "kind": virtual.kind, "version": virtual.version}
        api_version = f"{virtual.group}/{virtual.version}" if virtual.group else virtual.version
        item = schemas.kind(api_version, virtual.kind, gvks=[gvk])
        shown = Resource(gvk, virtual.plural, item, namespaced=virtual.namespaced, returns_deleted=False)
        return self._operations(shown, virtual.verbs, schemas).paths(virtual.verbs)

    def _operations(self, resource: Resource, verbs: tuple[str, ...], schemas: Schemas) -> Operations:
        shared = self._everywhere("DeleteOptions")
        watched = self._everywhere("WatchEvent")
        return Operations(
            resource,
            # Reviews and bindings are only created: they have no kind of lists.
            listing=schemas.list_of(resource.object, resource.gvk) if "list" in verbs else {},
            status=schemas.named(META, "Status", gvks=[{"group": "", "kind": "Status", "version": "v1"}]),
            delete_options=schemas.named(META, "DeleteOptions", gvks=shared),
            patch=schemas.patch(),
            watch_event=schemas.named(META, "WatchEvent", gvks=watched),
        )

    def _everywhere(self, kind: str) -> Iterable[dict[str, str]]:
        """Return the kind in every group version that the release knows: options and events belong to all of them."""
        return [
            {"group": group, "kind": kind, "version": version}
            for group, version in registered_group_versions(self._release)
        ]
