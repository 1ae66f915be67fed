"""Dependencies: the lower bounds are no older than the generators of modules."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "src" / "cathedra" / "_proto"


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def lowest() -> dict[str, tuple[int, ...]]:
    """Return the versions that `make lowest` installs."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "lowest.py"], capture_output=True, text=True, check=True)
    # Behind a semicolon stands the Python for which a dependency is needed.
    pins = (line.partition(";")[0].strip() for line in done.stdout.splitlines())
    return {name: version(number) for name, number in (pin.split("==") for pin in pins if pin)}


@pytest.mark.parametrize(
    ("library", "files", "pattern"),
    [
        ("protobuf", "*_pb2.py", r"Domain\.PUBLIC,\s+(\d+),\s+(\d+),\s+(\d+),"),
        ("grpcio", "*_grpc.py", r"GRPC_GENERATED_VERSION = '(\d+)\.(\d+)\.(\d+)'"),
    ],
)
def test_a_library_is_as_new_as_the_generator_of_its_modules(library: str, files: str, pattern: str) -> None:
    generators = {
        version(".".join(found)) for path in GENERATED.glob(files) for found in re.findall(pattern, path.read_text())
    }
    assert generators
    assert lowest()[library] >= max(generators)
