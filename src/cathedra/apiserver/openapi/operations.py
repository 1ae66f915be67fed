"""The paths of one resource: what can be done where, with which parameters (docs/spec/apimachinery.md §3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from cathedra.apiserver.openapi.schemas import OpenAPIObject

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
    "limit": ("integer", "How many objects a page holds at most; the answer tells how to go on."),
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
    """The parameters of a path that only lists or watches."""
    return [parameter(name) for name in sorted((*_LIST, "pretty"))]


def group_words(group: str, version: str) -> str:
    """A group version as operation names have it: ``ResourceV1``, ``RbacAuthorizationV1``, ``CoreV1``."""
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
        """The paths of the collection and of one object, and the old way to watch."""
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
        """The path of a sub-resource that shows ``reference``, an object of ``kind``."""
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
        """The path of a sub-resource that connects: logs, exec, proxy."""
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
