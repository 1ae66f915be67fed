"""Dependencies: the lower bounds are no older than what generated modules ask for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "src" / "cathedra" / "_proto"


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def lowest() -> dict[str, tuple[int, ...]]:
    """What `make lowest` installs."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "lowest.py"], capture_output=True, text=True, check=True)
    # Behind a semicolon stands the Python for which a dependency is needed.
    pins = (line.partition(";")[0].strip() for line in done.stdout.splitlines())
    return {name: version(number) for name, number in (pin.split("==") for pin in pins if pin)}


def test_protobuf_is_as_new_as_the_generator_of_the_messages() -> None:
    pattern = re.compile(r"Domain\.PUBLIC,\s+(\d+),\s+(\d+),\s+(\d+),")
    generators = {
        version(".".join(found)) for path in GENERATED.glob("*_pb2.py") for found in pattern.findall(path.read_text())
    }
    assert generators
    assert lowest()["protobuf"] >= max(generators)


def test_grpc_is_as_new_as_the_generator_of_the_stubs() -> None:
    pattern = re.compile(r"GRPC_GENERATED_VERSION = '([\d.]+)'")
    generators = {version(found) for path in GENERATED.glob("*_grpc.py") for found in pattern.findall(path.read_text())}
    assert generators
    assert lowest()["grpcio"] >= max(generators)
