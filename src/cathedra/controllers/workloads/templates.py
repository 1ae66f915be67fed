"""Versions of pod templates: equality, hashes, names, and the sizes of rolling updates. Pure functions."""

from __future__ import annotations

from typing import Final

from cathedra.api.core.core_v1 import PodTemplateSpec
from cathedra.api.struct import encode, replace

POD_TEMPLATE_HASH: Final = "pod-template-hash"
REVISION_HASH: Final = "controller-revision-hash"
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no similar characters, so that no hash forms a word."""


def with_label(template: PodTemplateSpec, key: str, value: str) -> PodTemplateSpec:
    """Return the template with one more label."""
    metadata = replace(template.metadata, labels={**template.metadata.labels, key: value})
    return replace(template, metadata=metadata)


def without_label(template: PodTemplateSpec, key: str) -> PodTemplateSpec:
    """Return the template less one label."""
    labels = {name: value for name, value in template.metadata.labels.items() if name != key}
    return replace(template, metadata=replace(template.metadata, labels=labels))


def same_template(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Return True if both make the same pods; the hash label does not count."""
    return without_label(one, POD_TEMPLATE_HASH) == without_label(other, POD_TEMPLATE_HASH)


def template_hash(template: PodTemplateSpec, collisions: int) -> str:
    """Return a short safe name for a template; ``collisions`` distinguishes templates with the same hash."""
    return safe_hash(encode(template) + (str(collisions).encode() if collisions else b""))


def safe_hash(data: bytes) -> str:
    """Return the 32-bit FNV-1a hash of ``data`` in characters that are safe in names."""
    digest = 2166136261
    for byte in data:
        digest = (digest ^ byte) * 16777619 & 0xFFFFFFFF
    return "".join(_SAFE[ord(character) % len(_SAFE)] for character in str(digest))


def resolve(value: int | str | None, total: int, *, round_up: bool, default: int | str) -> int:
    """Return an absolute number, or a percentage of ``total``."""
    value = default if value is None else value
    if isinstance(value, int):
        return value
    percent = int(value.rstrip("%") or 0) * total
    return -(-percent // 100) if round_up else percent // 100


def limits(replicas: int, max_surge: int | str | None, max_unavailable: int | str | None) -> tuple[int, int]:
    """Return pods allowed above ``replicas``, and unavailable pods allowed below; never both zero."""
    surge = resolve(max_surge, replicas, round_up=True, default="25%")
    unavailable = resolve(max_unavailable, replicas, round_up=False, default="25%")
    if surge == 0 and unavailable == 0:
        # A rollout that may do neither could not move at all.
        unavailable = 1
    return surge, min(unavailable, replicas) if replicas else unavailable


def up_step(replicas: int, surge: int, new: int, total: int) -> int:
    """Return to how many pods the new version may grow, with ``total`` pods of all versions wanted now."""
    if new >= replicas:
        return replicas
    room = replicas + surge - total
    return new + min(max(room, 0), replicas - new)


def down_step(replicas: int, unavailable: int, total: int, new_unavailable: int) -> int:
    """Return the number of old pods that can be deleted so that enough stay available."""
    return max(0, total - (replicas - unavailable) - new_unavailable)
