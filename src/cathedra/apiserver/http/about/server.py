"""Documents about the server itself: version and health (docs/spec/apimachinery.md §3), and what verifiers of service
account tokens read: the issuer's discovery document and its keys (OpenID Connect Discovery 1.0; §14 there)."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cathedra import __version__
from cathedra.api.struct import encode
from cathedra.apiserver.authentication.serviceaccounts import ServiceAccountTokens
from cathedra.apiserver.http.about.discovery import Discovery
from cathedra.apiserver.http.answers.response import Response, json_response, text_response
from cathedra.apiserver.http.request import Request
from cathedra.releases import behaviours, git_version

_ENDPOINTS: Final = ("healthz", "livez", "readyz")
_CONFIGURATION: Final = "/.well-known/openid-configuration"
_KEYS: Final = "/openid/v1/jwks"
_CACHE: Final = ((b"cache-control", b"public, max-age=3600"),)


class About:
    """Answers requests that name no resource: health, version, the issuer of tokens, discovery and OpenAPI."""

    def __init__(self, health: HealthAndVersion, tokens: ServiceAccountTokens, discovery: Discovery) -> None:
        self._health = health
        self._tokens = tokens
        self._discovery = discovery

    async def answer(self, request: Request) -> Response | None:
        """Return the document of the path, or None if the path names nothing."""
        return (
            self._health.answer(request)
            or _issuer_document(request, self._tokens)
            or await self._discovery.answer(request)
        )


class HealthAndVersion:
    """Answers ``/version`` and the health endpoints."""

    def __init__(
        self,
        release: str,
        checks: Mapping[str, Callable[[], bool]],
        notes: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """``notes`` are lines that verbose answers add to the checks; they fail none."""
        self._notes = notes
        self._release = release
        self._checks = dict(checks)

    def answer(self, request: Request) -> Response | None:
        """Return the answer, or None if the path is another's."""
        path = request.path.strip("/")
        if path == "version":
            return json_response(self._version())
        endpoint, _, single = path.partition("/")
        if endpoint in _ENDPOINTS:
            return self._health(endpoint, single, request)
        return None

    def _version(self) -> dict[str, str]:
        major, minor = self._release.split(".")
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        emulation = {
            "emulationMajor": major,
            "emulationMinor": minor,
            "minCompatibilityMajor": major,
            "minCompatibilityMinor": str(int(minor) - 1),
        }
        return {
            "major": major,
            "minor": minor,
            **(emulation if behaviours.EMULATION_SHOWN.holds_in(self._release) else {}),
            "gitVersion": git_version(self._release),
            "gitCommit": f"cathedra-{__version__}",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": f"python{platform.python_version()}",
            "compiler": platform.python_implementation().lower(),
            "platform": f"{platform.system().lower()}/{machine}",
        }

    def _health(self, endpoint: str, single: str, request: Request) -> Response:
        # ``/readyz/etcd`` runs one check.
        checks = {single: self._checks[single]} if single in self._checks else self._checks
        if single and single not in self._checks:
            return text_response("404 page not found\n", 404)
        excluded = set(request.query.get("exclude", ()))
        results = {name: check() for name, check in checks.items() if name not in excluded}
        healthy = all(results.values())
        if healthy and "verbose" not in request.query:
            return text_response("ok")
        lines = [f"[+]{name} ok" if ok else f"[-]{name} failed: reason withheld" for name, ok in results.items()]
        if not single:
            lines += self._notes()
        lines.append(f"{endpoint} check {'passed' if healthy else 'failed'}")
        return text_response("\n".join(lines) + "\n", 200 if healthy else 500)


def _issuer_document(request: Request, tokens: ServiceAccountTokens) -> Response | None:
    """Return the issuer's document of that path; None for every other path."""
    if request.path == _CONFIGURATION:
        host = request.header(b"host") or "kubernetes.default.svc"
        return json_response(tokens.configuration(f"https://{host}{_KEYS}"), headers=_CACHE)
    if request.path == _KEYS:
        return Response(200, encode(tokens.keys()), b"application/jwk-set+json", _CACHE)
    return None
