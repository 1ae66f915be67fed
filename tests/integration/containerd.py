"""A containerd of its own, in a directory of its own, with images that are made here: no registry, no network."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cathedra.node.shim import kernel
from tests.requirements import program, root

IMAGE = "registry.example/tools:1"
"""A root file system with busybox."""
USER_IMAGE = "registry.example/nobody:1"
"""The same, to be run as user 65534, with an entry point that says who it is."""
PAUSE = "registry.example/pause:1"
MISSING = "localhost:1/missing:1"
"""An image that is nowhere: no registry listens there."""
PROGRAMS = ("sh", "sleep", "cat", "echo", "env", "id", "ls", "nc", "true", "false", "kill", "touch", "dd", "stty", "wc")

CONFIGURATION = """version = 2
root = "{place}/root"
state = "{place}/state"
[grpc]
  address = "{place}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "{place}/cni"
"""


class Containerd:
    """A daemon that can be stopped and started again; its containers live on meanwhile."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.socket = str(place / "containerd.sock")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the daemon; returns when it answers."""
        with (self.place / "log").open("ab") as log:
            command = [program("containerd"), "--config", str(self.place / "config.toml")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + 120
        while self.ctr("version").returncode:
            assert self._process.poll() is None, (self.place / "log").read_text()
            assert time.monotonic() < until, (self.place / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """End the daemon alone."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ctr among Kubernetes' images and containers."""
        command = [program("ctr"), f"--address={self.socket}", "--namespace=k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def containers(self) -> list[str]:
        """The IDs of all sandboxes and containers."""
        return self.ctr("containers", "list", "--quiet").stdout.split()


@contextmanager
def containerd() -> Iterator[Containerd]:
    """A running containerd that has the images; nothing is left of it in the end."""
    root()
    busybox = program("busybox")
    program("containerd")
    place = Path(tempfile.mkdtemp(prefix="cd-"))
    found = Containerd(place)
    (place / "cni").mkdir()
    (place / "config.toml").write_text(CONFIGURATION.format(place=place, pause=PAUSE))
    try:
        found.start()
        archive = place / "images.tar"
        tools = {"entry": ["/bin/sh"], "user": ""}
        nobody = {"entry": ["/bin/sh", "-c", "id -u; sleep 600"], "user": "65534:65534"}
        pause = {"entry": ["/bin/sleep", "2147483647"], "user": ""}
        write_images(archive, Path(busybox), {IMAGE: tools, USER_IMAGE: nobody, PAUSE: pause})
        imported = found.ctr("images", "import", str(archive))
        assert imported.returncode == 0, imported.stderr
        yield found
        assert found.containers() == []
    finally:
        for each in found.containers():
            found.ctr("tasks", "kill", "--signal=SIGKILL", each)
            found.ctr("tasks", "delete", "--force", each)
        found.stop()
        _unmount_all(place)
        shutil.rmtree(place, ignore_errors=True)


def _unmount_all(place: Path) -> None:
    """Mounts of containers that the daemon has not come to remove."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    for path in sorted((line.split()[4] for line in lines), reverse=True):
        if path.startswith(f"{place}/"):
            kernel.unmount(path)


def write_images(archive: Path, busybox: Path, images: dict[str, dict[str, Any]]) -> None:
    """An OCI archive of images that all have one layer: busybox under the names of its programs."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data)}

    layer = _layer(busybox)
    layer_blob = blob(layer) | {"mediaType": "application/vnd.oci.image.layer.v1.tar"}
    manifests = []
    for name, what in images.items():
        config = {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64"),
            "os": "linux",
            "config": {"Entrypoint": what["entry"], "Env": ["PATH=/bin", "OF=image"], "User": what["user"]},
            "rootfs": {"type": "layers", "diff_ids": [layer_blob["digest"]]},
        }
        config_blob = blob(json.dumps(config).encode()) | {"mediaType": "application/vnd.oci.image.config.v1+json"}
        kind = "application/vnd.oci.image.manifest.v1+json"
        manifest = {"schemaVersion": 2, "mediaType": kind, "config": config_blob, "layers": [layer_blob]}
        named = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
        manifests.append(blob(json.dumps(manifest).encode()) | {"mediaType": kind, "annotations": named})
    files = {"oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode()} | blobs
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()
    with tarfile.open(archive, "w") as out:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))


def _layer(busybox: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        for folder in ("bin", "etc", "tmp", "dev", "proc", "sys"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777 if folder == "tmp" else 0o755
            out.addfile(entry)
        data = busybox.read_bytes()
        entry = tarfile.TarInfo("bin/busybox")
        entry.size, entry.mode = len(data), 0o755
        out.addfile(entry, io.BytesIO(data))
        for name in PROGRAMS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            out.addfile(entry)
    return buffer.getvalue()
