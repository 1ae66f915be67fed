"""Make an OCI image of busybox, without a registry: ``image.py FILE NAME [--entrypoint WORDS] [--user USER]``.

The archive has one layer, in which /bin/busybox has the names of its programs. What is made is imported with
``ctr --namespace k8s.io images import FILE``. Needs a static busybox (package busybox-static).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def main() -> int:
    """Write the archive."""
    parser = argparse.ArgumentParser(description="Make an OCI image of busybox.")
    parser.add_argument("file", type=Path)
    parser.add_argument("name")
    parser.add_argument("--entrypoint", default="/bin/sh")
    parser.add_argument("--user", default="")
    arguments = parser.parse_args()
    busybox = shutil.which("busybox")
    if busybox is None:
        print("busybox is not installed; get it with: apt-get install busybox-static", file=sys.stderr)
        return 2
    write_image(arguments.file, Path(busybox), arguments.name, arguments.entrypoint.split(), arguments.user)
    return 0


def write_image(archive: Path, busybox: Path, name: str, entrypoint: list[str], user: str) -> None:
    """An OCI archive with one image."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{digest}", "size": len(data)}

    layer = blob(make_layer(busybox), "layer.v1.tar")
    config = {
        "architecture": MACHINES.get(os.uname().machine, "amd64"),
        "os": "linux",
        "config": {"Entrypoint": entrypoint, "Env": ["PATH=/bin", "OF=image"], "User": user},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "config.v1+json"),
        "layers": [layer],
    }
    named = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    named["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    files = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [named]}).encode(),
        **blobs,
    }
    with tarfile.open(archive, "w") as out:
        for path, data in files.items():
            add_file(out, path, data, 0o644)


def make_layer(busybox: Path) -> bytes:
    """A root file system of busybox alone, as a tar archive."""
    programs = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            out.addfile(entry)
        add_file(out, "bin/busybox", busybox.read_bytes(), 0o755)
        for program in programs:
            link = tarfile.TarInfo(f"bin/{program}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            if program != "busybox":
                out.addfile(link)
    return buffer.getvalue()


def add_file(out: tarfile.TarFile, path: str, data: bytes, mode: int) -> None:
    """Add one file."""
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(data), mode
    out.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    sys.exit(main())
