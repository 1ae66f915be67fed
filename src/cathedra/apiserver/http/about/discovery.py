"""Discovery: the groups, versions and resources that are served, legacy and aggregated (docs/spec/apimachinery.md
§2).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra import __version__
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.struct import encode
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.computation import Computations
from cathedra.apiserver.custom.objects import CustomObject
from cathedra.apiserver.http.answers.negotiation import JSON_FORM, YAML_TYPE, negotiate
from cathedra.apiserver.http.answers.render import YAML_OF_JSON
from cathedra.apiserver.http.answers.response import JSON, Response, status_response
from cathedra.apiserver.http.proxying.aggregation import AggregatedServers
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.pipeline.operations import not_served
from cathedra.apiserver.routes import Route, VirtualResource, group_order, routes_of, version_order
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

if TYPE_CHECKING:
    from cathedra.apiserver.openapi.document import Documents
    from cathedra.apiserver.openapi.swagger import SwaggerPart


_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

AGGREGATED: Final = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Discovery:
    """Answers ``/``, ``/api``, ``/apis`` and the paths right below, and passes ``/openapi`` on."""

    def __init__(
        self, catalog: Catalog, openapi: OpenAPI, address: Callable[[], str], aggregated: AggregatedServers
    ) -> None:
        self._catalog = catalog
        self._others = aggregated
        self._openapi = openapi
        self._address = address
        self._generation = (-1, -1)
        self._documents: dict[str, bytes] = {}

    async def answer(self, request: Request) -> Response | None:
        """Return the answer, or None if the path names nothing.

        Raises:
            StatusError: 406, no form of a document is acceptable.
        """
        path = request.path.strip("/")
        if path.startswith("openapi/"):
            return await self._openapi.answer(request, path)
        generation = (self._catalog.generation, self._others.generation)
        # Documents are kept until a resource of this server, or of an aggregated one, changes.
        if self._generation != generation:
            self._documents = {}
            self._generation = generation
        if path in {"api", "apis"} and _wants_aggregated(request.header(b"accept")):
            return self._aggregated(request, path)
        document = self._documents.get(path)
        if document is None:
            value = self._legacy(path)
            if value is None:
                return self._missing(path)
            document = self._documents[path] = encode(value)
        # The list of paths is JSON for everyone; the other documents are negotiated as objects are.
        form = negotiate(request.header(b"accept"), transforms=False) if path else JSON_FORM
        content_type = YAML_OF_JSON if form.media_type == YAML_TYPE else JSON
        return Response(200, document, content_type, ((b"vary", b"Accept"),))

    def _aggregated(self, request: Request, path: str) -> Response:
        key = f"aggregated {path}"
        document = self._documents.get(key)
        if document is None:
            groups = [g for g in self._groups() if bool(g) is (path == "apis")]
            items = [self._aggregated_group(group) for group in groups]
            document = self._documents[key] = encode(
                {
                    "kind": "APIGroupDiscoveryList",
                    "apiVersion": "apidiscovery.k8s.io/v2",
                    "metadata": {},
                    "items": items,
                }
            )
        # The ETag of kube-apiserver: kubectl keeps documents by it over restarts of the server.
        tag = f'"{hashlib.sha512(document).hexdigest().upper()}"'.encode()
        headers = ((b"etag", tag), (b"vary", b"Accept"), (b"cache-control", b"public"))
        if request.header(b"if-none-match").encode() == tag:
            return Response(304, b"", AGGREGATED, headers)
        return Response(200, document, AGGREGATED, headers)

    def _groups(self) -> list[str]:
        # A custom kind of which no version is served stays in the catalog; it alone makes no group.
        found = {definition.group for definition in self._catalog if definition.versions}
        found |= {virtual.group for virtual in self._catalog.virtual}
        return sorted(found | {group for group, _ in self._others.services()}, key=group_order)

    def _versions(self, group: str) -> list[str]:
        found = {v.name for definition in self._catalog if definition.group == group for v in definition.versions}
        found |= {virtual.version for virtual in self._catalog.virtual if virtual.group == group}
        found |= {version for of, version in self._others.services() if of == group}
        return sorted(found, key=version_order)

    def _served(self, group: str, version: str) -> list[tuple[AnyDefinition, VersionDefinition]]:
        found: list[tuple[AnyDefinition, VersionDefinition]] = []
        for definition in self._catalog:
            if definition.group == group:
                found.extend((definition, v) for v in definition.versions if v.name == version)
        return sorted(found, key=lambda pair: pair[0].plural)

    def _virtual(self, group: str, version: str) -> list[VirtualResource]:
        return [virtual for virtual in self._catalog.virtual if (virtual.group, virtual.version) == (group, version)]

    def _aggregated_group(self, group: str) -> dict[str, Any]:
        versions = [
            {"version": version, "resources": self._aggregated_resources(group, version), "freshness": "Current"}
            for version in self._versions(group)
        ]
        return {"metadata": {"name": group} if group else {}, "versions": versions}

    def _aggregated_resources(self, group: str, version: str) -> list[dict[str, Any]]:
        # An APIService with a service decides, even if a built-in resource of that version exists.
        if (group, version) in self._others.services():
            return _aggregated_resources(self._others.resources(group, version))
        resources = []
        for definition, served in self._served(group, version):
            entry: dict[str, Any] = {
                "resource": definition.plural,
                "responseKind": {"group": "", "version": "", "kind": definition.kind},
                "scope": "Namespaced" if definition.namespaced else "Cluster",
                "singularResource": definition.singular,
                "verbs": _verbs(definition, served),
            }
            if definition.short_names:
                entry["shortNames"] = list(definition.short_names)
            if definition.categories:
                entry["categories"] = list(definition.categories)
            subresources = [
                {
                    "subresource": route.subresource,
                    "responseKind": dict(zip(("group", "version", "kind"), route.kind, strict=True)),
                    "verbs": list(route.verbs),
                }
                for route in _subresources(definition, served)
            ]
            if subresources:
                entry["subresources"] = subresources
            resources.append(entry)
        for virtual in self._virtual(group, version):
            resources.append(
                {
                    "resource": virtual.plural,
                    "responseKind": {"group": "", "version": "", "kind": virtual.kind},
                    "scope": "Namespaced" if virtual.namespaced else "Cluster",
                    "singularResource": virtual.singular,
                    "verbs": list(virtual.verbs),
                    **({"shortNames": list(virtual.short_names)} if virtual.short_names else {}),
                }
            )
        return sorted(resources, key=lambda resource: str(resource["resource"]))

    def _legacy(self, path: str) -> dict[str, Any] | None:
        parts = path.split("/") if path else []
        if not parts:
            return {"paths": self._paths()}
        if parts == ["api"]:
            address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address()}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": address}
        if parts == ["apis"]:
            groups = [self._legacy_group(group) for group in self._groups() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if parts[0] == "api" and len(parts) == 2 and parts[1] == "v1":
            return self._legacy_resources("", "v1")
        if parts[0] != "apis" or parts[1] not in self._groups():
            return None
        if len(parts) == 2:
            return {"kind": "APIGroup", "apiVersion": "v1"} | self._legacy_group(parts[1])
        if len(parts) == 3 and parts[2] in self._versions(parts[1]):
            return self._legacy_resources(parts[1], parts[2])
        return None

    def _missing(self, path: str) -> Response | None:
        parts = path.split("/")
        if len(parts) == 3 and parts[0] == "apis" and parts[1] in self._groups():
            return status_response(not_served())
        return None

    def _paths(self) -> list[str]:
        paths = ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/"]
        for group in self._groups():
            if group:
                paths.append(f"/apis/{group}")
                paths.extend(f"/apis/{group}/{version}" for version in self._versions(group))
        paths += ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/openid/v1/jwks"]
        paths += ["/readyz", "/version"]
        return sorted(paths)

    def _legacy_group(self, group: str) -> dict[str, Any]:
        versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in self._versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _legacy_resources(self, group: str, version: str) -> dict[str, Any]:
        group_version = f"{group}/{version}" if group else version
        resources: list[dict[str, Any]] = []
        for definition, served in self._served(group, version):
            entry = _legacy_resource(definition, _verbs(definition, served))
            if definition.categories:
                entry["categories"] = list(definition.categories)
            if "get" in definition.verbs:
                # The storage migrator compares these hashes, so they are computed as in Kubernetes.
                entry["storageVersionHash"] = _storage_hash(definition)
            resources.append(entry)
            for route in _subresources(definition, served):
                group_of_kind, version_of_kind, kind = route.kind
                name = f"{definition.plural}/{route.subresource}"
                sub = {"name": name, "singularName": "", "namespaced": definition.namespaced}
                if group_of_kind or version_of_kind:
                    sub |= {"group": group_of_kind, "version": version_of_kind}
                resources.append(sub | {"kind": kind, "verbs": list(route.verbs)})
        for virtual in self._virtual(group, version):
            resources.append(_legacy_resource(virtual, list(virtual.verbs)))
        resources.sort(key=lambda resource: str(resource["name"]))
        api_version = {"apiVersion": "v1"} if group else {}
        return {"kind": "APIResourceList", **api_version, "groupVersion": group_version, "resources": resources}


def _legacy_resource(kind: AnyDefinition | VirtualResource, verbs: list[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs,
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    return entry


def _subresources(definition: AnyDefinition, version: VersionDefinition) -> list[Route]:
    return [route for route in routes_of(definition, version) if route.subresource]


def _verbs(definition: AnyDefinition, version: VersionDefinition) -> list[str]:
    verbs = list(next(routes_of(definition, version)).verbs)
    # apiextensions-apiserver lists the verbs of custom resources in an order of its own.
    return sorted(verbs, key=_CUSTOM_VERBS.index) if issubclass(definition.type, CustomObject) else verbs


def _storage_hash(definition: AnyDefinition) -> str:
    stored = definition.storage_version or definition.versions[0].name
    text = f"{definition.group}/{stored}/{definition.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _wants_aggregated(accept: str) -> bool:
    return any(
        "as=APIGroupDiscoveryList" in clause and ";v=v2;" in f"{clause.replace(' ', '')};"
        for clause in accept.split(",")
    )


def _aggregated_resources(listed: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the APIResources of another server as APIResourceDiscovery: sub-resources below their resource."""
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(listed, key=lambda one: str(one.get("name", ""))):
        name, _, subresource = str(one.get("name", "")).partition("/")
        kind = {"group": one.get("group", ""), "version": one.get("version", ""), "kind": one.get("kind", "")}
        scope = "Namespaced" if one.get("namespaced") else "Cluster"
        entry = found.setdefault(name, {"resource": name, "scope": scope})
        if subresource:
            below = {"subresource": subresource, "responseKind": kind, "verbs": one.get("verbs", [])}
            entry.setdefault("subresources", []).append(below)
            continue
        entry |= {"responseKind": kind, "verbs": one.get("verbs", [])}
        for wanted, given in (
            ("singularResource", "singularName"),
            ("shortNames", "shortNames"),
            ("categories", "categories"),
        ):
            if one.get(given):
                entry[wanted] = one[given]
    return list(found.values())


# OpenAPI over HTTP: the index, the documents with their hashes, and the older form
# (docs/spec/apimachinery.md §3).

V2_PROTOBUF: Final = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
FAR_FUTURE: Final = b"Fri, 31 Dec 2099 23:59:59 GMT"
TEXT: Final = b"text/plain; charset=utf-8"


class OpenAPI:
    """Answers ``/openapi/v2`` and ``/openapi/v3``.

    A document is made when it is first requested, beside the event loop, and kept as bytes under its hash. A definition
    that is added changes only the document of its group. Concurrent requests for one document share its making."""

    def __init__(self, catalog: Catalog, release: str, computations: Computations) -> None:
        self._catalog = catalog
        self._release = release
        self._computations = computations
        self._generation = -1
        self._made: dict[str, tuple[str, bytes]] = {}
        """Path → hash and document."""
        self._parts: dict[str, tuple[str, SwaggerPart]] = {}
        """Path → hash and its part of the document of version 2."""
        self._v2_made: tuple[int, bytes, bytes] = (-1, b"", b"")
        """Generation of the catalog, the document of version 2, and its tag."""
        self._v2_converted: tuple[bytes, bytes, bytes] = (b"", b"", b"")
        """The document of version 2, the same in protobuf, and the tag of that."""
        self._making = asyncio.Lock()
        self._documents: Documents | None = None

    async def answer(self, request: Request, path: str) -> Response | None:
        """Return the answer, or None if the path names nothing."""
        if self._generation != self._catalog.generation:
            self._generation = self._catalog.generation
            served = self._paths()
            # Documents of groups that are gone are dropped: clients could create new groups again and again.
            self._made = {path: made for path, made in self._made.items() if path in served}
            self._parts = {path: part for path, part in self._parts.items() if path in served}
        if path == "openapi/v2":
            return await self._v2(request)
        if path == "openapi/v3":
            return Response(200, encode({"paths": self._index()}), TEXT)
        if path.startswith("openapi/v3/"):
            return await self._v3(request, path.removeprefix("openapi/v3/"))
        return None

    @property
    def _maker(self) -> Documents:
        if self._documents is None:
            from cathedra.apiserver.openapi.document import Documents  # start-up time: few clients read it

            self._documents = Documents(self._catalog, self._release)
        return self._documents

    def _paths(self) -> dict[str, tuple[str, str] | None]:
        """Return the group version of each document by its path; None for documents of no group version."""
        found: dict[str, tuple[str, str] | None] = {"api": None, "apis": None, "version": None}
        for group, version in self._maker.group_versions():
            if group:
                found[f"apis/{group}"] = None
            found[f"apis/{group}/{version}" if group else f"api/{version}"] = (group, version)
        return found

    def _index(self) -> JSONObject:
        return {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hash(path)}"} for path in sorted(self._paths())
        }

    def _hash(self, path: str) -> str:
        """Return the hash of a document without making it: the served resources and the version of the program
        determine it."""
        text = f"{__version__} {self._release} {path} {self._catalog.fingerprint(path)}"
        return hashlib.sha512(text.encode()).hexdigest().upper()

    async def _v3(self, request: Request, path: str) -> Response | None:
        paths = self._paths()
        if path not in paths:
            return Response(404, b"", b"")
        digest = self._hash(path)
        given = request.parameter("hash")
        if given and given != digest:
            location = f"/openapi/v3/{path}?hash={digest}".encode()
            return Response(301, b"", JSON, ((b"location", location),))
        body = await self._document(path, digest, paths[path], request.user.name)
        headers = [(b"etag", f'"{digest}"'.encode()), (b"vary", b"Accept")]
        if given:
            headers += [(b"cache-control", b"public, immutable"), (b"expires", FAR_FUTURE)]
        return Response(200, body, JSON, tuple(headers))

    async def _document(self, path: str, digest: str, group_version: tuple[str, str] | None, user: str) -> bytes:
        async with self._making:
            made = self._made.get(path)
            if made is None or made[0] != digest:
                body = await self._computations.compute(
                    lambda interruption: _encoded(self._make(path, group_version, interruption.check, _kept)), user
                )
                made = self._made[path] = (digest, body)
        return made[1]

    def _make(
        self,
        path: str,
        group_version: tuple[str, str] | None,
        check: Callable[[], object],
        kept: Callable[[JSONObject], msgspec.Raw],
    ) -> JSONObject:
        if group_version is None:
            return self._maker.around(path, kept)
        return self._maker.group_version(*group_version, check, kept)

    async def _v2(self, request: Request) -> Response:
        accept = request.header(b"accept")
        in_protobuf = "proto-openapi" in accept
        if not in_protobuf:
            negotiate(accept, transforms=False)
        async with self._making:
            if self._v2_made[0] != self._catalog.generation:
                # Read before the computation: a definition that is added meanwhile makes the document outdated at once.
                generation = self._catalog.generation
                wanted = {path: (self._hash(path), found) for path, found in self._paths().items()}
                body, tag = await self._computations.compute(
                    lambda interruption: self._joined(wanted, interruption.check), request.user.name
                )
                self._v2_made = (generation, body, tag)
            _, body, tag = self._v2_made
            if in_protobuf:
                body, tag = await self._v2_protobuf(body, request.user.name)
        if request.header(b"if-none-match").encode() == tag:
            return Response(304, b"", JSON, ((b"etag", tag),))
        kind = V2_PROTOBUF if in_protobuf else JSON
        return Response(200, body, kind, ((b"etag", tag), (b"vary", b"Accept")))

    async def _v2_protobuf(self, body: bytes, user: str) -> tuple[bytes, bytes]:
        """Return a document of version 2 in protobuf, and its tag."""
        if self._v2_converted[0] is not body:
            from cathedra.apiserver.openapi.swaggerprotobuf import swagger_protobuf  # start-up time: few clients

            made = await self._computations.compute(
                lambda interruption: swagger_protobuf(msgspec.json.decode(body), interruption.check), user
            )
            self._v2_converted = (body, made, _tag(made))
        return self._v2_converted[1:]

    def _joined(
        self, wanted: Mapping[str, tuple[str, tuple[str, str] | None]], check: Callable[[], object]
    ) -> tuple[bytes, bytes]:
        """Return the document of version 2 and its tag. Only parts that have changed are made."""
        # start-up time: few clients read it
        from cathedra.apiserver.openapi.swagger import joined, kept_path, swagger_part

        parts = []
        for path, (digest, group_version) in wanted.items():
            known = self._parts.get(path)
            if known is None or known[0] != digest:
                known = (digest, swagger_part(self._make(path, group_version, check, kept_path), check))
                self._parts[path] = known
            parts.append(known[1])
        body = joined(parts, self._release)
        return body, _tag(body)


def _tag(body: bytes) -> bytes:
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'.encode()


def _kept(operations: JSONObject) -> msgspec.Raw:
    """Return the JSON of the operations on a path."""
    return msgspec.Raw(encode(operations))


def _encoded(document: dict[str, Any]) -> bytes:
    """Return the JSON of a document. Schemas are encoded one by one: all at once they would hold the interpreter
    lock."""
    components = document["components"]
    schemas = {name: msgspec.Raw(encode(schema)) for name, schema in components["schemas"].items()}
    return encode({**document, "components": {**components, "schemas": schemas}})
