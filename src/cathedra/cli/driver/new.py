"""``cathedra driver-new``: writes the files of a new driver, with tests that pass."""

from __future__ import annotations

import argparse
from pathlib import Path

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.driverscaffold import scaffold_files

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Write the files into a new directory."""
    name: str = arguments.name
    files = scaffold_files(name)
    directory = arguments.directory or Path(name.partition(".")[0])
    # Another driver's files, or changed ones, must not be overwritten.
    if directory.exists() and any(directory.iterdir()):
        raise InvalidOption(f"{directory} exists and is not empty; remove it, or name another with --directory")
    directory.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (directory / file).write_text(content, encoding="utf-8")
        print(directory / file)
    module = next(file for file in files if file.endswith(".py") and not file.startswith("test_"))
    print(f"test it: cd {directory} && python -m pytest && cathedra driver-check -- python {module}")
    return 0
