"""Pulling the images of a pod's containers: names, registry credentials, pull policies and back-off.

Events, reasons and texts are those of the kubelet's image manager. A failed pull has the reason ``ErrImagePull``; while
the next attempt is not due, the reason is ``ImagePullBackOff`` and the message repeats the error. Image names have the
form ``[REGISTRY/]REPOSITORY[:TAG][@DIGEST]``. Pull secrets may have either form: ``kubernetes.io/dockerconfigjson`` or
the older ``kubernetes.io/dockercfg``.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.client.backoff import ItemBackoff
from cathedra.client.client import Client
from cathedra.clock import Clock
from cathedra.node.runtime.runtime import Image, ImageFailure, ImageStore, RegistryLogin
from cathedra.node.setup.references import ContainerConfigError, References

BACKOFF_FIRST: Final = 10.0
BACKOFF_MAX: Final = 300.0
_SOON: Final = 1.0
"""Seconds after a failed pull before its back-off is reported."""
_REGISTRY: Final = "RegistryUnavailable"
_SIGNATURE: Final = "SignatureValidationFailed"


class ImageUnavailable(Exception):
    """A container has no image to run; ``reason`` and ``message`` are its waiting state's.

    ``again`` is when to try next, in seconds from now; None: as with any container that cannot be made.
    """

    def __init__(self, reason: str, message: str, again: float | None = None) -> None:
        self.reason, self.message, self.again = reason, message, again
        super().__init__(f"{reason}: {message}")


class ImagePuller:
    """Pulls the images of one pod's containers."""

    def __init__(self, images: ImageStore, secrets: PullSecrets, clock: Clock) -> None:
        self._images = images
        self._secrets = secrets
        self._clock = clock
        self._backoff: ItemBackoff[str] = ItemBackoff(base=BACKOFF_FIRST, maximum=BACKOFF_MAX)
        self._until: dict[str, float] = {}
        """Image → when it may be pulled again, monotonic seconds."""
        self._problems: dict[str, str] = {}

    async def ensure(self, container: Container, tell: Tell) -> tuple[str, Image]:
        """Return the full name of the container's image, and the image, which is present.

        Raises:
            ImageUnavailable: the image cannot be pulled now, or the policy forbids it.
        """
        try:
            image = with_tag(container.image)
        except InvalidImageName as error:
            message = f'Failed to apply default image tag "{container.image}": {error}'
            tell("Warning", "InspectFailed", message)
            raise ImageUnavailable("InvalidImageName", message) from error
        policy = container.image_pull_policy
        present = await self._find(image, container.image, tell)
        if policy == "Never" and present is None:
            message = f'Container image "{container.image}" is not present with pull policy of Never'
            tell("Warning", "ErrImageNeverPull", message)
            raise ImageUnavailable("ErrImageNeverPull", message)
        # "Always" calls the registry even if the image is there: the tag may name another image by now.
        if present is not None and policy != "Always":
            text = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
            tell("Normal", "Pulled", text)
            return image, present
        return image, await self._pull(image, container.image, tell)

    async def _find(self, image: str, named: str, tell: Tell) -> Image | None:
        try:
            return await self._images.find(image)
        except ImageFailure as error:
            message = f'Failed to inspect image "{named}": {error}'
            tell("Warning", "InspectFailed", message)
            raise ImageUnavailable("ImageInspectError", message) from error

    async def _pull(self, image: str, named: str, tell: Tell) -> Image:
        # By image, not by container: two containers of one image share the back-off, as in the kubelet.
        left = self._until.get(image, 0.0) - self._clock.monotonic()
        # Registries limit anonymous pulls. A pod that retries at once would use up the limit for the whole node.
        if left > 0:
            message = f'Back-off pulling image "{image}"'
            tell("Normal", "BackOff", message)
            raise ImageUnavailable("ImagePullBackOff", f"{message}: {self._problems[image]}", left)
        tell("Normal", "Pulling", f'Pulling image "{image}"')
        began = self._clock.monotonic()
        try:
            await self._pull_with_logins(image, tell)
        except ImageFailure as error:
            tell("Warning", "Failed", f'Failed to pull image "{image}": {error}')
            raise self._failed(image, str(error)) from error
        self._backoff.forget(image)
        self._until.pop(image, None)
        found = await self._find(image, named, tell)
        # Garbage collection of images may have been faster.
        if found is None:
            raise self._failed(image, f'image "{image}" has been pulled and is not there')
        seconds = _milliseconds(self._clock.monotonic() - began)
        took = f"{seconds} ({seconds} including waiting)"
        text = f'Successfully pulled image "{image}" in {took}. Image size: {found.size} bytes.'
        tell("Normal", "Pulled", text)
        return found

    async def _pull_with_logins(self, image: str, tell: Tell) -> None:
        """Try each login that fits, or none if none does; the last failure counts."""
        logins = logins_for(image, await self._secrets.contents(tell))
        # Several secrets may fit one registry, and only a pull shows which of them is valid.
        for login in logins[:-1]:
            try:
                return await self._images.pull(image, login)
            except ImageFailure:
                continue
        return await self._images.pull(image, logins[-1] if logins else None)

    def _failed(self, image: str, problem: str) -> ImageUnavailable:
        self._until[image] = self._clock.monotonic() + self._backoff.delay(image)
        reason, message = "ErrImagePull", problem
        for known, why in ((_REGISTRY, "the registry is unavailable"), (_SIGNATURE, "the signature validation failed")):
            if problem.startswith(known):
                reason = known
                message = f"image pull failed for {image} because {why}{problem.removeprefix(known)}"
        self._problems[image] = f"{reason}: {message}"
        return ImageUnavailable(reason, message, _SOON)


def _milliseconds(seconds: float) -> str:
    """Seconds as Go prints a duration of whole milliseconds: 0s, 35ms, 1.5s, 1m2.5s."""
    whole = int(seconds * 1000)
    if whole < 1000:
        return f"{whole}ms" if whole else "0s"
    minutes, rest = divmod(whole, 60_000)
    text = f"{rest / 1000:g}s" if rest % 1000 else f"{rest // 1000}s"
    return f"{minutes}m{text}" if minutes else text


DEFAULT_REGISTRY: Final = "docker.io"
_DEFAULT_TAG: Final = "latest"
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?", re.ASCII)
_REPOSITORY: Final = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)
_TAG: Final = re.compile(r"[\w][\w.-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}", re.ASCII)
_LONGEST: Final = 255


class InvalidImageName(ValueError):
    """This is not how an image is called."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f'couldn\'t parse image name "{name}": {problem}')


def with_tag(image: str) -> str:
    """Return the name with ``:latest`` where it has neither tag nor digest.

    Raises:
        InvalidImageName: it is none.
    """
    _, tagged = _split(image)
    return image if tagged else f"{image}:{_DEFAULT_TAG}"


def repository_of(image: str) -> str:
    """``REGISTRY/REPOSITORY`` of an image.

    Raises:
        InvalidImageName: it is none.
    """
    return _split(image)[0]


def _split(image: str) -> tuple[str, bool]:
    """Return ``REGISTRY/REPOSITORY``, and True if the name has a tag or digest."""
    rest, at, digest = image.partition("@")
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    name = f"{head}{slash}{last}"
    if (at and not _DIGEST.fullmatch(digest)) or (colon and not _TAG.fullmatch(tag)):
        raise InvalidImageName(image, "invalid reference format")
    host, slash, path = name.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost" or host != host.lower()):
        host, path = DEFAULT_REGISTRY, name if "/" in name else f"library/{name}"
    # The most frequent mistake has a text of its own, which is that of the reference parser.
    if path != path.lower() and _REPOSITORY.fullmatch(path.lower()):
        raise InvalidImageName(image, f"invalid reference format: repository name ({path}) must be lowercase")
    if not _HOST.fullmatch(host) or not _REPOSITORY.fullmatch(path):
        raise InvalidImageName(image, "invalid reference format")
    if len(path) > _LONGEST:
        raise InvalidImageName(image, f"repository name must not be more than {_LONGEST} characters")
    return f"{host}/{path}", bool(colon or at)


_JSON: Final = ".dockerconfigjson"
_OLD: Final = ".dockercfg"
_DOCKER_HUB: Final = "index.docker.io"


def logins_for(image: str, secrets: Iterable[Mapping[str, bytes]]) -> tuple[RegistryLogin, ...]:
    """Return the logins that fit the image's repository, the most particular first; a secret without any is passed
    over.

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
    # The longest match first; the sort is stable, so secrets keep their order in the pod.
    found.sort(key=lambda each: -each[0])
    return tuple(dict.fromkeys(login for _, login in found))


def _entries(content: Mapping[str, bytes]) -> dict[str, Any]:
    try:
        if _JSON in content:
            entries = json.loads(content[_JSON]).get("auths", {})
        else:
            entries = json.loads(content.get(_OLD, b"{}"))
    # A malformed secret counts as empty: an image that needs no login can still be pulled.
    except (ValueError, AttributeError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _place(server: str) -> str:
    """``HOST[/PATH]`` of a key; versions of the registry's protocol are no paths."""
    place = server.removeprefix("https://").removeprefix("http://").rstrip("/")
    host, _, path = place.partition("/")
    if path in ("v1", "v2"):
        path = ""
    # Docker writes its own registry under this old name.
    if host == _DOCKER_HUB:
        host = DEFAULT_REGISTRY
    return f"{host}/{path}".rstrip("/")


def _fits(place: str, repository: str) -> bool:
    host, _, path = place.partition("/")
    own_host, _, own_path = repository.partition("/")
    patterns, labels = host.split("."), own_host.split(".")
    # «*» matches one label of the host, never several.
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


Tell = Callable[[Literal["Normal", "Warning"], str, str], None]
"""Records an event of a container: type, reason, message."""


class PullSecrets:
    """Reads the pull secrets of one pod."""

    def __init__(self, client: Client, pod: Pod) -> None:
        self._client = client
        self._pod = pod

    async def contents(self, tell: Tell) -> list[Mapping[str, bytes]]:
        """Return the data of the readable secrets. An event names the others."""
        references = References(self._client, self._pod.metadata.namespace)
        found: list[Mapping[str, bytes]] = []
        missing: list[str] = []
        for secret in self._pod.spec.image_pull_secrets:
            try:
                content = await references.secret(secret.name, optional=True)
            except ContainerConfigError:
                content = None
            if content is None:
                missing.append(secret.name)
            else:
                found.append(content)
        if missing:
            text = f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
            tell("Warning", "FailedToRetrieveImagePullSecret", f"{text}attempting to pull the image may not succeed.")
        return found
