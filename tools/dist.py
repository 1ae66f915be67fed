"""Build sdist, wheel and the krew plugin twice, and keep them if both builds are equal byte for byte.

python tools/dist.py [HOMEPAGE]

Sdist and wheel are in dist/, the plugin's archive and manifest in dist-krew/. The manifest names the archive at
HOMEPAGE/releases/download/vVERSION/. Times in the archives are those of the last commit (``SOURCE_DATE_EPOCH``
overrides it).
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
KREW: Final = ROOT / "deploy" / "krew"
HOMEPAGE: Final = "https://example.com/cathedra"
"""Placeholder, until the repository has an address."""


def build(target: Path, homepage: str) -> dict[str, str]:
    """Build into ``dist`` and ``dist-krew`` of the folder, and return the SHA-256 of each file."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _last_commit()
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target / "dist")]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "SOURCE_DATE_EPOCH": epoch}, check=True, capture_output=True)
    (wheel,) = target.glob("dist/*.whl")
    plugin(wheel, target / "dist-krew", homepage, int(epoch))
    files = sorted(path for path in target.glob("*/*"))
    return {str(path.relative_to(target)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def plugin(wheel: Path, target: Path, homepage: str, epoch: int) -> None:
    """Write the archive of the kubectl plugin with the wheel, and its manifest for krew."""
    version = f"v{wheel.name.split('-')[1]}"
    target.mkdir()
    archive = target / f"kubectl-dra-{version}.tar.gz"
    contents = (
        (KREW / "launcher.py", "kubectl-dra", 0o755),
        (ROOT / "LICENSE", "LICENSE", 0o644),
        (wheel, wheel.name, 0o644),
    )
    # Name and time of the compressed file would be in its header, and differ.
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for source, name, mode in contents:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = source.stat().st_size, mode, epoch
            with source.open("rb") as content:
                tar.addfile(entry, content)
    manifest = (KREW / "dra.yaml").read_text()
    for mark, value in {
        "VERSION": version,
        "HOMEPAGE": homepage,
        "ARCHIVE": f"{homepage}/releases/download/{version}/{archive.name}",
        "SHA256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }.items():
        manifest = manifest.replace(f": {mark}\n", f": {value}\n")
    (target / "dra.yaml").write_text(manifest.partition("\n")[2])


def _last_commit() -> str:
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main(arguments: Sequence[str]) -> int:
    """Build; 1 if two builds differ."""
    homepage = arguments[0] if arguments else HOMEPAGE
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        hashes = build(Path(first), homepage)
        if hashes != build(Path(second), homepage):
            print("two builds of the same commit differ", file=sys.stderr)
            return 1
        for folder in ("dist", "dist-krew"):
            shutil.rmtree(ROOT / folder, ignore_errors=True)
            shutil.copytree(Path(first, folder), ROOT / folder)
    for name, digest in hashes.items():
        print(f"{digest}  {name}  {(ROOT / name).stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
