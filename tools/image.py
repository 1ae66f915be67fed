"""Build the image of deploy/Containerfile without a registry and without a daemon, on a base made of Debian's packages.

python tools/image.py [NAME]

Needs buildah and mmdebstrap, and the wheel in dist/. The base has Python and the libraries that it needs, and no shell;
only the stage that installs the wheel has one. The last line names image and size.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
IMAGE: Final = "localhost/cathedra"
NEEDED: Final = ("buildah", "mmdebstrap")
SHELLS: Final = frozenset(("./bin/sh", "./bin/dash", "./usr/bin/sh", "./usr/bin/dash"))
CERTIFICATES: Final = Path("/etc/ssl/certs")


def build(name: str, folder: Path) -> None:
    """Build the image; files in between are written to the folder."""
    builder, base = folder / "builder.tar", folder / "base.tar"
    # Packages are unpacked and not configured: Python needs no more, and a shell comes with none of them. The wheel of
    # grpcio needs libstdc++.
    packages = "--include=python3-venv,libstdc++6,dash"
    run("mmdebstrap", "--quiet", "--variant=extract", packages, _suite(), str(builder))
    without_shell(builder, base)
    images = [imported(tar) for tar in (builder, base)]
    before = [found["id"] for found in _known(name)]
    try:
        # Where requests leave through a proxy of one's own, pip needs the certificates of this machine.
        certificates = [f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"] if CERTIFICATES.is_dir() else []
        arguments = [f"--build-arg={key}={value}" for key, value in zip(("BUILDER", "BASE"), images, strict=True)]
        container = "deploy/Containerfile"
        run(
            "buildah",
            "build",
            "--isolation=chroot",
            "--quiet",
            *arguments,
            *certificates,
            "-f",
            container,
            "-t",
            name,
            ".",
        )
    finally:
        run("buildah", "rmi", "--force", *images)
    if old := set(before) - {found["id"] for found in _known(name)}:
        run("buildah", "rmi", *old)


def _known(name: str) -> list[dict[str, Any]]:
    images: list[dict[str, Any]] | None = json.loads(run("buildah", "images", "--json"))
    return [found for found in images or () if f"{name}:latest" in (found["names"] or ())]


def without_shell(source: Path, target: Path) -> None:
    """Copy an archive of a root file system, without its shell."""
    with tarfile.open(source) as packed, tarfile.open(target, "w") as tar:
        for member in packed:
            if member.name not in SHELLS:
                tar.addfile(member, packed.extractfile(member) if member.isfile() else None)


def imported(root: Path) -> str:
    """Make an image of an archive of a root file system; return its ID."""
    container = run("buildah", "from", "scratch")
    run("buildah", "add", "--quiet", container, str(root), "/")
    return run("buildah", "commit", "--quiet", "--rm", container)


def _suite() -> str:
    """Return the release of Debian that this machine runs; the stable one on other systems."""
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return release.get("VERSION_CODENAME", "stable") if release.get("ID") == "debian" else "stable"


def run(*command: str) -> str:
    """Run a command; return what it printed."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"image: {' '.join(command[:2])} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def main(arguments: Sequence[str]) -> int:
    """Build; 2 if something is missing."""
    name = arguments[0] if arguments else IMAGE
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        print(f"image: {' and '.join(missing)} missing: apt-get install {' '.join(missing)}", file=sys.stderr)
        return 2
    if not list((ROOT / "dist").glob("*.whl")):
        print("image: dist/ has no wheel: make dist", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        build(name, Path(folder))
    (found,) = _known(name)
    print(f"{name}: {found['size']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
