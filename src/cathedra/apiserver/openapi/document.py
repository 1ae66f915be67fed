"""OpenAPI v3 documents: one per group version, and small ones for the discovery paths around them.

Made with the first request, from the served definitions and the schemas of their types
(docs/spec/apimachinery.md §3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.openapi.schemas import META, Descriptions, OpenAPIObject, Schemas
from cathedra.apiserver.routes import METRICS_GROUP, VirtualResource
from cathedra.kinds.definition import AnyDefinition, VersionDefinition
from cathedra.releases.served import registered_group_versions

STATUS_VERBS = ("get", "patch", "update")
_STREAMS = frozenset({"attach", "exec", "log", "portforward", "proxy"})


def _itself(operations: Any) -> Any:
    return operations


class Documents:
    """Builds the documents of one server. Nothing is cached here: the HTTP side caches what it serves."""

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


JSON_TYPES: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
WATCH_TYPES: Final = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
_APPLY: Final = "application/apply-patch+yaml"
_PATCHES: Final = (_APPLY, "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_TEXTS: Final = {
    "allowWatchBookmarks": (
        "boolean",
        "Whether the watch may send bookmarks: events that only carry a resource version.",
    ),
    "continue": ("string", "Where to go on: the token of the page before."),
    "dryRun": ("string", "«All» does everything but keep the result. Nothing else is valid."),
    "fieldManager": ("string", "Who makes the change, as managedFields will name it; at most 128 printable bytes."),
    "fieldSelector": ("string", "Only objects whose fields have these values. Everything if left out."),
    "fieldValidation": (
        "string",
        "What happens to unknown and repeated fields: Ignore drops them, Warn (the default) drops them with a warning, "
        "Strict refuses the request.",
    ),
    "force": ("boolean", "Whether an apply takes over fields that others own. Only for apply patches."),
    "gracePeriodSeconds": (
        "integer",
        "Seconds between the request and the end; 0 ends at once. The kind's own if left out.",
    ),
    "ignoreStoreReadErrorWithClusterBreakingPotential": (
        "boolean",
        "Whether an object that cannot be read from the store is removed all the same.",
    ),
    "labelSelector": ("string", "Only objects with such labels. Everything if left out."),
    "limit": ("integer", "Largest number of objects of a page; the answer has the token of the next page."),
    "orphanDependents": ("boolean", "Deprecated: use propagationPolicy. Whether dependents are kept."),
    "pretty": ("string", "«true» indents the answer."),
    "propagationPolicy": (
        "string",
        "What happens to dependents: Orphan keeps them, Background removes them afterwards, Foreground before.",
    ),
    "resourceVersion": ("string", "How old the answer may be, or after which change a watch begins."),
    "resourceVersionMatch": ("string", "How resourceVersion is meant: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "Whether a watch begins with everything there is, and a bookmark behind it."),
    "shardSelector": ("string", "Only objects of this shard. Alpha."),
    "timeoutSeconds": ("integer", "Seconds after which the server ends the list or watch."),
    "watch": ("boolean", "Whether to follow changes instead of listing."),
}
_LIST: Final = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
)
_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_DELETE: Final = (
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
)
_DELETE_COLLECTION: Final = (*_DELETE, *(name for name in _LIST if name not in {"allowWatchBookmarks", "watch"}))


def parameter(name: str) -> OpenAPIObject:
    """Return the description of a query parameter."""
    kind, text = _TEXTS[name]
    return {"name": name, "in": "query", "description": text, "schema": {"type": kind, "uniqueItems": True}}


def watch_parameters() -> list[OpenAPIObject]:
    """Return the parameters of a path that only lists or watches."""
    return [parameter(name) for name in sorted((*_LIST, "pretty"))]


def group_words(group: str, version: str) -> str:
    """Return a group version as operation names have it: ``ResourceV1``, ``RbacAuthorizationV1``, ``CoreV1``."""
    # Names of operations are an interface: generated clients are named after them.
    words = group.removesuffix(".k8s.io") or "core"
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[.-]", words)) + version[:1].upper() + version[1:]


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource in one version."""

    gvk: dict[str, str]
    plural: str
    object: OpenAPIObject
    """Reference to the schema of its kind."""
    namespaced: bool
    returns_deleted: bool
    """True if a deletion returns the object, and not a Status."""
    strategic: bool = True
    """True if it takes strategic merge patches, which custom resources do not."""


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations of a resource; the other fields are references to the schemas that they need."""

    resource: Resource
    listing: OpenAPIObject
    status: OpenAPIObject
    delete_options: OpenAPIObject
    patch: OpenAPIObject
    watch_event: OpenAPIObject

    @property
    def prefix(self) -> str:
        """The group version's path."""
        group, version = self.resource.gvk["group"], self.resource.gvk["version"]
        return f"/apis/{group}/{version}" if group else f"/api/{version}"

    @property
    def _where(self) -> str:
        scope = "/namespaces/{namespace}" if self.resource.namespaced else ""
        return f"{self.prefix}{scope}/{self.resource.plural}"

    def paths(self, verbs: tuple[str, ...]) -> OpenAPIObject:
        """Return the paths of the collection and of one object, and the old way to watch."""
        collection: OpenAPIObject = {}
        if "list" in verbs:
            collection["get"] = self._operation(_Operation("list", "list", self.listing, _LIST, streaming=True))
        if "create" in verbs:
            collection["post"] = self._operation(
                _Operation("create", "post", self.resource.object, _WRITE, body=self.resource.object)
            )
        if "deletecollection" in verbs:
            collection["delete"] = self._operation(
                _Operation("delete", "deletecollection", self.status, _DELETE_COLLECTION, middle="Collection")
            )
        single: OpenAPIObject = {}
        if "get" in verbs:
            single["get"] = self._operation(_Operation("read", "get", self.resource.object, ()))
        if "update" in verbs:
            single["put"] = self._operation(
                _Operation("replace", "put", self.resource.object, _WRITE, body=self.resource.object)
            )
        if "delete" in verbs:
            answer = self.resource.object if self.resource.returns_deleted else self.status
            single["delete"] = self._operation(
                _Operation("delete", "delete", answer, _DELETE, body=self.delete_options)
            )
        if "patch" in verbs:
            single["patch"] = self._operation(_Operation("patch", "patch", self.resource.object, (*_WRITE, "force")))
        paths = {}
        if collection:
            paths[self._where] = {**collection, "parameters": self._scope("pretty")}
        if single:
            paths[f"{self._where}/{{name}}"] = {**single, "parameters": self._scope("name", "pretty")}
        if "list" in verbs and self.resource.namespaced:
            listing = self._operation(_Operation("list", "list", self.listing, (), everywhere=True, streaming=True))
            paths[f"{self.prefix}/{self.resource.plural}"] = {"get": listing, "parameters": watch_parameters()}
        if "watch" in verbs:
            paths |= self._watch_paths()
        return paths

    def subresource(
        self, name: str, kind: dict[str, str], reference: OpenAPIObject, verbs: tuple[str, ...]
    ) -> OpenAPIObject:
        """Return the path of a sub-resource that shows ``reference``, an object of ``kind``."""
        suffix = name[:1].upper() + name[1:]
        methods: OpenAPIObject = {}
        for verb, method, word, action in (
            ("get", "get", "read", "get"),
            ("update", "put", "replace", "put"),
            ("patch", "patch", "patch", "patch"),
            ("create", "post", "create", "post"),
        ):
            if verb not in verbs:
                continue
            parameters = () if verb == "get" else (*_WRITE, "force") if verb == "patch" else _WRITE
            body = reference if verb in {"update", "create"} else None
            made = self._operation(_Operation(word, action, reference, parameters, body=body, suffix=suffix))
            made["x-kubernetes-group-version-kind"] = kind
            methods[method] = made
        return {f"{self._where}/{{name}}/{name}": {**methods, "parameters": self._scope("name", "pretty")}}

    def connection(self, name: str, kind: dict[str, str], verbs: tuple[str, ...]) -> OpenAPIObject:
        """Return the path of a sub-resource that connects: logs, exec, proxy."""
        suffix = name[:1].upper() + name[1:]
        methods: OpenAPIObject = {}
        for verb, method in (("get", "get"), ("create", "post")):
            if verb in verbs:
                words = (
                    f"connect{group_words(self.resource.gvk['group'], self.resource.gvk['version'])}{method.title()}"
                )
                methods[method] = {
                    "description": f"connect to {name} of the {self.resource.gvk['kind']}",
                    "operationId": f"{words}Namespaced{self.resource.gvk['kind']}{suffix}",
                    "tags": [self._tag],
                    "responses": _responses({"type": "string"}, ("*/*",), (200,)),
                    "x-kubernetes-action": "connect",
                    "x-kubernetes-group-version-kind": kind,
                }
        return {f"{self._where}/{{name}}/{name}": {**methods, "parameters": self._scope("name")}}

    def _watch_paths(self) -> OpenAPIObject:
        scope = "/namespaces/{namespace}" if self.resource.namespaced else ""
        base = f"{self.prefix}/watch{scope}/{self.resource.plural}"
        paths = {
            base: self._watched("watchlist", suffix="List"),
            f"{base}/{{name}}": self._watched("watch", named=True),
        }
        if self.resource.namespaced:
            paths[f"{self.prefix}/watch/{self.resource.plural}"] = self._watched(
                "watchlist", suffix="List", everywhere=True
            )
        return paths

    def _watched(
        self, action: str, *, suffix: str = "", named: bool = False, everywhere: bool = False
    ) -> OpenAPIObject:
        made = self._operation(_Operation("watch", action, self.watch_event, (), suffix=suffix, everywhere=everywhere))
        made["description"] = f"watch {self.resource.gvk['kind']} objects. Deprecated: list with watch=true instead."
        # Kubernetes keeps these paths for old clients, and marks them so.
        made["deprecated"] = True
        made["responses"] = _responses(self.watch_event, (*JSON_TYPES, *WATCH_TYPES), (200,))
        scope = [] if everywhere else [one for one in self._scope(*(("name",) if named else ())) if one["in"] == "path"]
        both = sorted([*scope, *watch_parameters()], key=lambda one: str(one["name"]))
        return {"get": made, "parameters": both}

    @property
    def _tag(self) -> str:
        words = group_words(self.resource.gvk["group"], "")
        return f"{words[:1].lower()}{words[1:]}_{self.resource.gvk['version']}"

    def _scope(self, *names: str) -> list[OpenAPIObject]:
        made: list[OpenAPIObject] = []
        if "name" in names:
            made.append(_path_parameter("name", f"The name of the {self.resource.gvk['kind']}."))
        if self.resource.namespaced:
            made.append(_path_parameter("namespace", "The namespace of the object."))
        if "pretty" in names:
            made.append(parameter("pretty"))
        return made

    def _operation(self, shown: _Operation) -> OpenAPIObject:
        word, middle, suffix = shown.word, shown.middle, shown.suffix
        namespaced = "Namespaced" if self.resource.namespaced and not shown.everywhere else ""
        ending = f"{suffix}ForAllNamespaces" if shown.everywhere else suffix
        media = (*JSON_TYPES, *WATCH_TYPES) if shown.streaming else JSON_TYPES
        words = group_words(self.resource.gvk["group"], self.resource.gvk["version"])
        kind = self.resource.gvk["kind"]
        made: OpenAPIObject = {
            "description": f"{word} {'the ' if not middle and word != 'list' else ''}{kind}"
            f"{' objects' if middle or word == 'list' else ''}{f' ({suffix.lower()})' if suffix else ''}",
            "operationId": f"{word}{words}{middle}{namespaced}{kind}{ending}",
            "tags": [self._tag],
            "parameters": [parameter(name) for name in sorted(shown.parameters)],
            "responses": _responses(shown.answer, media, _codes(shown.action)),
            "x-kubernetes-action": shown.action,
            "x-kubernetes-group-version-kind": self.resource.gvk,
        }
        accepted = self._request_body(shown.action, shown.body)
        return made if accepted is None else {**made, "requestBody": accepted}

    def _request_body(self, action: str, body: OpenAPIObject | None) -> OpenAPIObject | None:
        if action == "patch":
            kinds = sorted((*_PATCHES, _STRATEGIC)) if self.resource.strategic else _PATCHES
            return {"required": True, "content": {media: {"schema": self.patch} for media in kinds}}
        if action == "deletecollection":
            return {"content": {"*/*": {"schema": self.delete_options}}}
        if body is None:
            return None
        return {"content": {"*/*": {"schema": body}}, **({} if action == "delete" else {"required": True})}


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation to be shown; its name is put together from the words."""

    word: str
    action: str
    answer: OpenAPIObject
    parameters: tuple[str, ...] = ()
    body: OpenAPIObject | None = None
    middle: str = ""
    suffix: str = ""
    everywhere: bool = False
    """True for the path over all namespaces."""
    streaming: bool = False
    """True if the answer may be a watch."""


def _codes(action: str) -> tuple[int, ...]:
    return {"post": (200, 201, 202), "put": (200, 201), "patch": (200, 201), "delete": (200, 202)}.get(action, (200,))


# The texts of Go's http.StatusText, as Kubernetes' generator takes them.
_WORDS: Final = {200: "OK", 201: "Created", 202: "Accepted"}


def _responses(answer: OpenAPIObject, media: tuple[str, ...], codes: tuple[int, ...]) -> OpenAPIObject:
    content = {kind: {"schema": answer} for kind in media}
    made: OpenAPIObject = {str(code): {"description": _WORDS[code], "content": content} for code in codes}
    made["401"] = {"description": "Unauthorized"}
    return made


def _path_parameter(name: str, text: str) -> OpenAPIObject:
    return {
        "name": name,
        "in": "path",
        "description": text,
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }
