"""A containerd of its own, in a directory of its own, with the images of examples/cri: no registry, no network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cathedra.node.shim import kernel
from tests.requirements import program, root

IMAGE = "registry.example/tools:1"
"""A root file system with busybox."""
USER_IMAGE = "registry.example/nobody:1"
"""The same, to be run as user 65534, with an entry point that waits."""
PAUSE = "registry.example/pause:1"
MISSING = "localhost:1/missing:1"
"""An image that is nowhere: no registry listens there."""
EXAMPLE = Path(__file__).parents[2] / "examples" / "cri"
IMAGES = {
    IMAGE: ("/bin/sh", ""),
    USER_IMAGE: ("/bin/busybox sleep 600", "65534:65534"),
    PAUSE: ("/bin/sleep 2147483647", ""),
}
"""Name → entry point and user."""


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
    program("busybox")
    program("containerd")
    place = Path(tempfile.mkdtemp(prefix="cd-"))
    found = Containerd(place)
    (place / "cni").mkdir()
    configuration = (EXAMPLE / "containerd.toml").read_text()
    (place / "config.toml").write_text(configuration.replace("PLACE", str(place)))
    try:
        found.start()
        for name, (entrypoint, user) in IMAGES.items():
            archive = str(place / "image.tar")
            make = [sys.executable, str(EXAMPLE / "image.py"), archive, name]
            subprocess.run([*make, f"--entrypoint={entrypoint}", f"--user={user}"], check=True)
            imported = found.ctr("images", "import", archive)
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
