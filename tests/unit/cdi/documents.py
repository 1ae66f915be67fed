"""CDI documents on disk, as the SDK writes them."""

from __future__ import annotations

from pathlib import Path

from cathedra.cdi.spec import Spec
from cathedra.driver.preparing.specs import encode_document


def write_document(directory: Path, name: str, spec: Spec) -> Path:
    """Write ``spec`` as ``directory/name.json``; the directory is made when it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.json"
    path.write_bytes(encode_document(spec))
    return path
