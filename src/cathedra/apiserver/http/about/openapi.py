"""OpenAPI over HTTP: the index, the documents with their hashes, and the older form
(docs/spec/apimachinery.md §3)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from cathedra import __version__
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.struct import encode
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.http.answers.negotiation import negotiate
from cathedra.apiserver.http.answers.response import JSON, Response
from cathedra.apiserver.http.request import Request

if TYPE_CHECKING:
    from cathedra.apiserver.openapi.document import Documents

__all__ = ["OpenAPI"]

V2_PROTOBUF: Final = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V2_STUB: Final = b"\x0a\x032.0"
"""Field 1 (swagger) is "2.0": all that kubectl needs of the second version."""
FAR_FUTURE: Final = b"Fri, 31 Dec 2099 23:59:59 GMT"
TEXT: Final = b"text/plain; charset=utf-8"


class OpenAPI:
    """Answers ``/openapi/v2`` and ``/openapi/v3``; documents are made when first asked for, and kept as bytes."""

    def __init__(self, catalog: Catalog, release: str) -> None:
        self._catalog = catalog
        self._release = release
        self._generation = -1
        self._made: dict[str, bytes] = {}
        self._documents: Documents | None = None

    def answer(self, request: Request, path: str) -> Response | None:
        """The answer, or None if the path names nothing."""
        if self._generation != self._catalog.generation:
            self._made = {}
            self._generation = self._catalog.generation
        if path == "openapi/v2":
            return self._v2(request)
        if path == "openapi/v3":
            return Response(200, encode({"paths": self._index()}), TEXT)
        if path.startswith("openapi/v3/"):
            return self._v3(request, path.removeprefix("openapi/v3/"))
        return None

    @property
    def _maker(self) -> Documents:
        if self._documents is None:
            from cathedra.apiserver.openapi.document import Documents  # start-up time: few clients ask

            self._documents = Documents(self._catalog, self._release)
        return self._documents

    def _paths(self) -> dict[str, tuple[str, str] | None]:
        """Every document, with its group version unless it is about what lies around."""
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
        """Names the content without making it: the set of served resources and the program's version decide it."""
        text = f"{__version__} {self._release} {path} {self._catalog.fingerprint(path)}"
        return hashlib.sha512(text.encode()).hexdigest().upper()

    def _v3(self, request: Request, path: str) -> Response | None:
        paths = self._paths()
        if path not in paths:
            return Response(404, b"", b"")
        digest = self._hash(path)
        given = request.parameter("hash")
        if given and given != digest:
            location = f"/openapi/v3/{path}?hash={digest}".encode()
            return Response(301, b"", JSON, ((b"location", location),))
        if path not in self._made:
            self._made[path] = encode(self._make(path, paths[path]))
        headers = [(b"etag", f'"{digest}"'.encode()), (b"vary", b"Accept")]
        if given:
            headers += [(b"cache-control", b"public, immutable"), (b"expires", FAR_FUTURE)]
        return Response(200, self._made[path], JSON, tuple(headers))

    def _make(self, path: str, group_version: tuple[str, str] | None) -> JSONObject:
        if group_version is None:
            return self._maker.around(path)
        return self._maker.group_version(*group_version)

    def _v2(self, request: Request) -> Response:
        accept = request.header(b"accept")
        if "proto-openapi" in accept:
            return Response(200, V2_STUB, V2_PROTOBUF)
        negotiate(accept, transforms=False)
        if "v2" not in self._made:
            from cathedra.apiserver.openapi.swagger import swagger  # start-up time: few clients ask

            documents = [self._make(path, found) for path, found in self._paths().items()]
            self._made["v2"] = encode(swagger(documents, self._release))
        body = self._made["v2"]
        tag = f'"{hashlib.sha512(body).hexdigest().upper()}"'.encode()
        if request.header(b"if-none-match").encode() == tag:
            return Response(304, b"", JSON, ((b"etag", tag),))
        return Response(200, body, JSON, ((b"etag", tag), (b"vary", b"Accept")))
