"""Pod templates as versions: equality, hash, and the name that makes of it."""

from __future__ import annotations

from typing import Final

from cathedra.api.core.core_v1 import PodTemplateSpec
from cathedra.api.struct import encode, replace

__all__ = ["POD_TEMPLATE_HASH", "REVISION_HASH", "same_template", "template_hash", "with_label"]

POD_TEMPLATE_HASH: Final = "pod-template-hash"
REVISION_HASH: Final = "controller-revision-hash"
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no look-alikes, so that no hash spells a word."""


def with_label(template: PodTemplateSpec, key: str, value: str) -> PodTemplateSpec:
    """The template with one more label."""
    metadata = replace(template.metadata, labels={**template.metadata.labels, key: value})
    return replace(template, metadata=metadata)


def without_label(template: PodTemplateSpec, key: str) -> PodTemplateSpec:
    """The template less one label."""
    labels = {name: value for name, value in template.metadata.labels.items() if name != key}
    return replace(template, metadata=replace(template.metadata, labels=labels))


def same_template(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Whether both make the same pods; the hash label does not count."""
    return without_label(one, POD_TEMPLATE_HASH) == without_label(other, POD_TEMPLATE_HASH)


def template_hash(template: PodTemplateSpec, collisions: int) -> str:
    """A short safe name for a template; ``collisions`` tells apart two with the same one."""
    digest = 2166136261
    for byte in encode(template) + (str(collisions).encode() if collisions else b""):
        digest = (digest ^ byte) * 16777619 & 0xFFFFFFFF
    return "".join(_SAFE[ord(character) % len(_SAFE)] for character in str(digest))
