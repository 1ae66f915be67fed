"""What verifiers of service account tokens read: the issuer's discovery document and its keys (OpenID Connect
Discovery 1.0; docs/spec/apimachinery.md §14)."""

from __future__ import annotations

from typing import Final

from cathedra.api.struct import encode
from cathedra.apiserver.authentication.serviceaccounts import ServiceAccountTokens
from cathedra.apiserver.http.answers.response import Response, json_response
from cathedra.apiserver.http.request import Request

__all__ = ["issuer_document"]

_CONFIGURATION: Final = "/.well-known/openid-configuration"
_KEYS: Final = "/openid/v1/jwks"
_CACHE: Final = ((b"cache-control", b"public, max-age=3600"),)


def issuer_document(request: Request, tokens: ServiceAccountTokens) -> Response | None:
    """The document of that path; None for every other path."""
    if request.path == _CONFIGURATION:
        host = request.header(b"host") or "kubernetes.default.svc"
        return json_response(tokens.configuration(f"https://{host}{_KEYS}"), headers=_CACHE)
    if request.path == _KEYS:
        return Response(200, encode(tokens.keys()), b"application/jwk-set+json", _CACHE)
    return None
