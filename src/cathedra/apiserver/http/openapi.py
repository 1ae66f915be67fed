"""OpenAPI: what the schemas package describes, put into documents per group version (spec: apimachinery.md, section
3)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

from cathedra.api.struct import encode
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.http.response import JSON, Response

__all__ = ["DocumentMaker", "OpenAPI"]

V2_PROTOBUF: Final = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V2_STUB: Final = b"\x0a\x032.0"
"""Field 1 (swagger) is "2.0": all that kubectl needs of the second version."""
FAR_FUTURE: Final = b"Fri, 31 Dec 2099 23:59:59 GMT"

DocumentMaker = Callable[[str, str], dict[str, Any]]
"""Group and version in, the OpenAPI v3 document out."""


class OpenAPI:
    """Answers ``/openapi/v2`` and ``/openapi/v3``; documents are made when first asked for."""

    def __init__(self, catalog: Catalog, make: DocumentMaker) -> None:
        self._catalog = catalog
        self._make = make
        self._generation = -1
        self._documents: dict[str, bytes] = {}

    def answer(self, request: Request, path: str) -> Response | None:
        """The answer, or None if the path names nothing."""
        if self._generation != self._catalog.generation:
            self._documents = {}
            self._generation = self._catalog.generation
        if path == "openapi/v2":
            return self._v2(request)
        if path == "openapi/v3":
            return Response(200, encode({"paths": self._index()}), JSON)
        if path.startswith("openapi/v3/"):
            return self._v3(request, path.removeprefix("openapi/v3/"))
        return None

    def _group_versions(self) -> dict[str, tuple[str, str]]:
        found: dict[str, tuple[str, str]] = {}
        for definition in self._catalog:
            for version in definition.versions:
                prefix = f"apis/{definition.group}" if definition.group else "api"
                found[f"{prefix}/{version.name}"] = (definition.group, version.name)
        return found

    def _index(self) -> dict[str, Any]:
        return {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hash(path)}"}
            for path in sorted(self._group_versions())
        }

    def _hash(self, path: str) -> str:
        """Names the content without making it: the set of served resources and the program's version decide it."""
        from cathedra import __version__

        group, version = self._group_versions()[path]
        names = sorted(
            d.plural for d in self._catalog if d.group == group and any(v.name == version for v in d.versions)
        )
        text = f"{__version__} {path} {self._catalog.generation} {names}"
        return hashlib.sha512(text.encode()).hexdigest().upper()

    def _v3(self, request: Request, path: str) -> Response | None:
        found = self._group_versions().get(path)
        if found is None:
            return None
        digest = self._hash(path)
        given = request.parameter("hash")
        if given and given != digest:
            location = f"/openapi/v3/{path}?hash={digest}".encode()
            return Response(301, b"", JSON, ((b"location", location),))
        if path not in self._documents:
            self._documents[path] = encode(self._make(*found))
        headers = [(b"etag", f'"{digest}"'.encode()), (b"vary", b"Accept")]
        if given:
            headers += [(b"cache-control", b"public, immutable"), (b"expires", FAR_FUTURE)]
        return Response(200, self._documents[path], JSON, tuple(headers))

    def _v2(self, request: Request) -> Response:
        if "protobuf" in request.header(b"accept"):
            return Response(200, V2_STUB, V2_PROTOBUF)
        document = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "1"}, "paths": {}, "definitions": {}}
        return Response(200, encode(document), JSON)
