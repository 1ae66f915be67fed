"""How images are called: ``[REGISTRY/]REPOSITORY[:TAG][@DIGEST]``, with a kubelet's texts for what is none."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["DEFAULT_REGISTRY", "InvalidImageName", "repository_of", "with_tag"]

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
    """The name with ``:latest`` where it has neither tag nor digest.

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
    """``REGISTRY/REPOSITORY``, and whether the name says more than that."""
    rest, at, digest = image.partition("@")
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    name = f"{head}{slash}{last}"
    if (at and not _DIGEST.fullmatch(digest)) or (colon and not _TAG.fullmatch(tag)):
        raise InvalidImageName(image, "invalid reference format")
    host, slash, path = name.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost" or host != host.lower()):
        host, path = DEFAULT_REGISTRY, name if "/" in name else f"library/{name}"
    if path != path.lower() and _REPOSITORY.fullmatch(path.lower()):
        raise InvalidImageName(image, f"invalid reference format: repository name ({path}) must be lowercase")
    if not _HOST.fullmatch(host) or not _REPOSITORY.fullmatch(path):
        raise InvalidImageName(image, "invalid reference format")
    if len(path) > _LONGEST:
        raise InvalidImageName(image, f"repository name must not be more than {_LONGEST} characters")
    return f"{host}/{path}", bool(colon or at)
