"""Build sdist and wheel twice, and keep them in dist/ if both builds are equal byte for byte.

python tools/dist.py

Times in the archives are those of the last commit (``SOURCE_DATE_EPOCH`` overrides it).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def build(target: Path) -> dict[str, str]:
    """Build into the folder, and return the SHA-256 of each file."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _last_commit()
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "SOURCE_DATE_EPOCH": epoch}, check=True, capture_output=True)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(target.iterdir())}


def _last_commit() -> str:
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    """Build; 1 if two builds differ."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        hashes = build(Path(first))
        if hashes != build(Path(second)):
            print("two builds of the same commit differ", file=sys.stderr)
            return 1
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(first, ROOT / "dist")
    for name, digest in hashes.items():
        print(f"{digest}  {name}  {(ROOT / 'dist' / name).stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
