"""Violations of a check by a pod, and the phrases that name pods and containers in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from cathedra.api.core.core_v1 import Container, EphemeralContainer, PodSpec, SecurityContext
from cathedra.api.core.meta_v1 import ObjectMeta

AnyContainer = Container | EphemeralContainer


class Violation(msgspec.Struct, frozen=True):
    """A reason for which a pod is refused, and its details in this pod."""

    reason: str
    detail: str


Check = Callable[[ObjectMeta, PodSpec], Violation | None]
"""Returns the violation by a pod with this metadata and spec; None if there is none."""


def containers(spec: PodSpec) -> Iterator[AnyContainer]:
    """Yield all containers of a pod: init containers, regular ones, ephemeral ones."""
    yield from spec.init_containers
    yield from spec.containers
    yield from spec.ephemeral_containers


def with_context(spec: PodSpec) -> Iterator[tuple[str, SecurityContext]]:
    """Containers' names and security contexts, where there is one."""
    for container in containers(spec):
        if container.security_context is not None:
            yield container.name, container.security_context


def quoted(items: Iterable[str]) -> str:
    """Return items in quotes: ``"a", "b"``."""
    return ", ".join(f'"{item}"' for item in items)


def plural(word: str, count: int) -> str:
    """Return the word, in the plural unless ``count`` is 1."""
    return word if count == 1 else f"{word}s"


def named(names: Sequence[str]) -> str:
    """``container "a"``, ``containers "a", "b"``."""
    return f"{plural('container', len(names))} {quoted(names)}"


def setters(names: Sequence[str], *, pod: bool) -> str:
    """Return a phrase for the pod, these containers, or both, which set a field; "" if none did."""
    return " and ".join([*(["pod"] if pod else []), *([named(names)] if names else [])])
