"""CDI documents as files: read strictly, written so that a reader never sees half of one.

docs/spec/node.md §19.1. A writer makes a temporary file in the same directory and renames it; names beginning
with a dot or without a known extension are no documents, so the temporary one is never read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.decoding import DecodeError, read_yaml
from cathedra.api.nesting import load_json
from cathedra.cdi.errors import InvalidSpec
from cathedra.cdi.spec import Spec, spec_from_plain, validate
from cathedra.files.atomic import write_atomic

__all__ = ["EXTENSIONS", "file_name", "read_spec", "remove_spec", "write_spec"]

EXTENSIONS: Final = (".json", ".yaml")
"""What a document's name ends with; ``.yml`` is none."""


def file_name(kind: str, transient_id: str = "") -> str:
    """The customary name, without extension: ``vendor-class`` or ``vendor-class_id``."""
    static = kind.replace("/", "-")
    return f"{static}_{transient_id.replace('/', '_')}" if transient_id else static


def read_spec(path: Path) -> Spec:
    """The document at ``path``.

    Raises:
        InvalidSpec: it is no valid document; the text begins with the path.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    try:
        return spec_from_plain(_plain(path, data))
    except InvalidSpec as error:
        raise InvalidSpec(f"failed to read CDI Spec {path}: {error}") from error


def _plain(path: Path, data: bytes) -> Any:
    if path.suffix == ".json":
        try:
            return load_json(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise InvalidSpec(f"no JSON: {error}") from error
    try:
        return read_yaml(data).value
    except DecodeError as error:
        raise InvalidSpec(f"no YAML: {error}") from error


def write_spec(directory: Path, name: str, spec: Spec) -> Path:
    """Write ``spec`` as ``directory/name.json``, atomically; the directory is made when it is missing.

    Raises:
        InvalidSpec: the document breaks a rule; nothing is written.
    """
    validate(spec)
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = directory / f"{name}.json"
    write_atomic(path, msgspec.json.format(msgspec.json.encode(spec)), mode=0o644)
    return path


def remove_spec(directory: Path, name: str) -> None:
    """Remove what `write_spec` wrote, if it is there."""
    (directory / f"{name}.json").unlink(missing_ok=True)
