"""A checkout in small: files in the form of Kubernetes' source, with facts of a release that never was."""

from __future__ import annotations

from pathlib import Path

from tools.follow.source import Checkout

API = "staging/src/k8s.io/api"


def checkout(folder: Path, **files: str) -> Checkout:
    """A checkout with the given files; ``__`` in a name is a slash, ``_dot_`` a dot."""
    for name, text in files.items():
        write(folder, name.replace("__", "/").replace("_dot_", "."), text)
    return Checkout(folder)


def write(folder: Path, path: str, text: str) -> None:
    """Write one file of the checkout."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
