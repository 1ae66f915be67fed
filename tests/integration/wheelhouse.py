"""Wheels of the installed dependencies, from which an installer makes environments without a package index."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement


def pack(target: Path, *names: str) -> None:
    """Write a wheel of each of these installed projects and of all that they require."""
    for found in _closure(names):
        _write(found, target)


def _closure(names: tuple[str, ...]) -> Iterator[Distribution]:
    waiting, seen = list(names), set()
    while waiting:
        name = waiting.pop()
        if name.lower().replace("_", "-") in seen:
            continue
        seen.add(name.lower().replace("_", "-"))
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if found.name != "cathedra":
            yield found
        needed = [Requirement(text) for text in found.requires or ()]
        waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]


def _write(found: Distribution, target: Path) -> None:
    """Pack the files that the installation recorded. Scripts and bytecode are made anew by the installer."""
    files = [file for file in found.files or () if file.parts[0] != ".." and file.suffix != ".pyc"]
    information = next(file.parent for file in files if file.name == "METADATA")
    tags = [line.partition(": ")[2] for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag")]
    name = [str(information).removesuffix(".dist-info")]
    name += [".".join(sorted({tag.split("-")[part] for tag in tags})) for part in range(3)]
    record = []
    with zipfile.ZipFile(target / f"{'-'.join(name)}.whl", "w") as wheel:
        for file in files:
            if file.parent == information and file.name in ("RECORD", "INSTALLER", "REQUESTED"):
                continue
            content = file.read_binary()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            wheel.writestr(str(file), content)
            record.append(f"{file},sha256={digest},{len(content)}")
        wheel.writestr(f"{information}/RECORD", "\n".join([*record, f"{information}/RECORD,,", ""]))
