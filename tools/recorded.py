"""The recorded answers of Kubernetes as seeds of the fuzzers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.vectorfiles import VECTORS, cases, vector_files

__all__ = ["recorded"]


def recorded(area: str) -> Iterator[dict[str, Any]]:
    """Every case of an area, from the vectors of this repository."""
    for path in vector_files(VECTORS / area).values():
        yield from cases(path)
