"""Files of vectors: one JSON case per line, plain (``*.jsonl``) or xz-compressed (``*.jsonl.xz``).

The repository holds them compressed, because they shrink to a thirtieth. A folder given with ``VECTORS=DIR`` may hold
either form; a file is called by its plain name everywhere.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["VECTORS", "cases", "count", "vector_files"]

VECTORS: Final = Path(__file__).with_name("vectors")
"""The recorded answers that the repository holds."""


def vector_files(folder: Path) -> dict[str, Path]:
    """The files of an area, by their plain name, in order."""
    found = {path.name.removesuffix(".xz"): path for path in folder.iterdir() if _is_vectors(path)}
    return dict(sorted(found.items()))


def cases(path: Path) -> Iterator[dict[str, Any]]:
    """The cases of a file."""
    for line in _lines(path):
        yield json.loads(line)


def count(path: Path) -> int:
    """Return the number of cases in a file."""
    return sum(1 for _ in _lines(path))


def _is_vectors(path: Path) -> bool:
    return path.name.endswith((".jsonl", ".jsonl.xz"))


def _lines(path: Path) -> Iterator[bytes]:
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as lines:
        yield from (line for line in lines if line.strip())
