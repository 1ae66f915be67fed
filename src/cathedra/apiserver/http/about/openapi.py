"""OpenAPI over HTTP: the index, the documents with their hashes, and the older form
(docs/spec/apimachinery.md §3)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra import __version__
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.struct import encode
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.computation import Computations
from cathedra.apiserver.http.answers.negotiation import negotiate
from cathedra.apiserver.http.answers.response import JSON, Response
from cathedra.apiserver.http.request import Request

if TYPE_CHECKING:
    from cathedra.apiserver.openapi.document import Documents
    from cathedra.apiserver.openapi.swagger import SwaggerPart

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
