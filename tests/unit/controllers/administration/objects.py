"""Administrators' objects."""

from __future__ import annotations

from cathedra.api.core.core_v1 import (
    Container,
    Pod,
    PodSpec,
)
from cathedra.api.core.meta_v1 import ObjectMeta


def pod(name: str, **spec: object) -> Pod:
    container = Container(name="c", image="i")
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(containers=(container,), **spec))  # type: ignore[arg-type]  # whatever field the test is about
