"""The recorded answers of Kubernetes as seeds of the fuzzers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["recorded"]

VECTORS: Final = Path("../shared/vectors")


def recorded(area: str) -> Iterator[dict[str, Any]]:
    """Every case of an area."""
    for path in sorted((VECTORS / area).glob("*.jsonl")):
        with path.open("rb") as lines:
            yield from (json.loads(line) for line in lines if line.strip())
