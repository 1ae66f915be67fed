"""Logging in at registries with the secrets that a pod names in ``imagePullSecrets``.

Both forms of such secrets: ``kubernetes.io/dockerconfigjson`` and the older ``kubernetes.io/dockercfg``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from cathedra.node.images.names import DEFAULT_REGISTRY, repository_of
from cathedra.node.runtime.runtime import RegistryLogin

__all__ = ["logins_for"]

_JSON: Final = ".dockerconfigjson"
_OLD: Final = ".dockercfg"
_DOCKER_HUB: Final = "index.docker.io"


def logins_for(image: str, secrets: Iterable[Mapping[str, bytes]]) -> tuple[RegistryLogin, ...]:
    """The logins that fit the image's repository, the most particular first; a secret without any is passed over.

    Raises:
        InvalidImageName: it is no name of an image.
    """
    repository = repository_of(image)
    found: list[tuple[int, RegistryLogin]] = []
    for content in secrets:
        for server, entry in _entries(content).items():
            place = _place(server)
            if isinstance(entry, dict) and _fits(place, repository):
                found.append((len(place), _login(server, entry)))
    found.sort(key=lambda each: -each[0])
    return tuple(dict.fromkeys(login for _, login in found))


def _entries(content: Mapping[str, bytes]) -> dict[str, Any]:
    try:
        if _JSON in content:
            entries = json.loads(content[_JSON]).get("auths", {})
        else:
            entries = json.loads(content.get(_OLD, b"{}"))
    except (ValueError, AttributeError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _place(server: str) -> str:
    """``HOST[/PATH]`` of a key; versions of the registry's protocol are no paths."""
    place = server.removeprefix("https://").removeprefix("http://").rstrip("/")
    host, _, path = place.partition("/")
    if path in ("v1", "v2"):
        path = ""
    if host == _DOCKER_HUB:
        host = DEFAULT_REGISTRY
    return f"{host}/{path}".rstrip("/")


def _fits(place: str, repository: str) -> bool:
    host, _, path = place.partition("/")
    own_host, _, own_path = repository.partition("/")
    patterns, labels = host.split("."), own_host.split(".")
    if len(patterns) != len(labels) or not all(map(fnmatchcase, labels, patterns)):
        return False
    return not path or own_path == path or own_path.startswith(f"{path}/")


def _login(server: str, entry: Mapping[str, Any]) -> RegistryLogin:
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    auth = str(entry.get("auth") or "")
    if auth and not username:
        try:
            username, _, password = base64.b64decode(auth).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            username = password = ""
    return RegistryLogin(
        username=username,
        password=password,
        server=server,
        identity_token=str(entry.get("identitytoken") or ""),
        registry_token=str(entry.get("registrytoken") or ""),
    )
