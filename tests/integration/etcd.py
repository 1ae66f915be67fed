"""A real etcd on free loopback ports, started, killed and started again at will."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.requirements import program

__all__ = ["Etcd", "free_port", "running_etcd", "running_members"]

START_SECONDS = 60.0


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Etcd:
    """One member; alone, or of the cluster ``name=peer,…``."""

    def __init__(
        self, data: Path, *options: str, scheme: str = "http", name: str = "default", cluster: str = ""
    ) -> None:
        self.port = free_port()
        cluster = cluster or f"{name}=http://127.0.0.1:{free_port()}"
        peer = dict(member.split("=") for member in cluster.split(","))[name]
        client = f"{scheme}://127.0.0.1:{self.port}"
        self._log = data.with_suffix(".log")
        self._command = [
            *("etcd", "--data-dir", str(data), "--log-level", "error", "--name", name),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", cluster),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What ``--store`` takes."""
        return f"etcd://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
                return
            assert self._process.poll() is None, self._log.read_text()
            time.sleep(0.02)
        raise TimeoutError("etcd does not listen")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it, by default without a warning."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(10)
            self._process = None


@contextlib.contextmanager
def running_members(data: Path, count: int) -> Iterator[list[Etcd]]:
    """A cluster of several members that ends with the block."""
    program("etcd")
    cluster = ",".join(f"m{number}=http://127.0.0.1:{free_port()}" for number in range(count))
    members = [Etcd(data / f"m{number}", name=f"m{number}", cluster=cluster) for number in range(count)]
    try:
        # A member takes connections once it has found the others.
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(Etcd.start, members))
        yield members
    finally:
        for member in members:
            member.kill()


@contextlib.contextmanager
def running_etcd(data: Path, *options: str, scheme: str = "http") -> Iterator[Etcd]:
    """An etcd that ends with the block; the test is skipped where there is none to start."""
    program("etcd")
    # Alone it need not wait a second for other candidates.
    etcd = Etcd(data, "--heartbeat-interval", "10", "--election-timeout", "50", *options, scheme=scheme)
    etcd.start()
    try:
        yield etcd
    finally:
        etcd.kill()
