"""A store on free loopback ports, started, killed and started again at will: a real etcd, or a server that behaves as
kine does."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.ports import free_port
from tests.requirements import program

__all__ = ["STORES", "Etcd", "Kine", "free_port", "running_etcd", "running_kine", "running_members"]

START_SECONDS = 60.0


class _Store:
    """A process that listens on ``port``."""

    def __init__(self, port: int, log: Path, command: list[str]) -> None:
        self.port = port
        self._log = log
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the value of ``--store``."""
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
        raise TimeoutError(f"{self._command[0]} does not listen")

    def stop(self) -> None:
        """Let it hang: its connections stand, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue after `stop`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it, by default without a warning."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(10)
            self._process = None


class Kine(_Store):
    """What `tests.integration.kine_program` serves, from one database."""

    def __init__(self, data: Path, notify_seconds: float = 5.0) -> None:
        port = free_port()
        module = "tests.integration.kine_program"
        options = ("--data", str(data), "--port", str(port), "--notify", str(notify_seconds))
        super().__init__(port, data.with_suffix(".log"), [sys.executable, "-m", module, *options])


class Etcd(_Store):
    """One member; alone, or of the cluster ``name=peer,…``."""

    def __init__(
        self, data: Path, *options: str, scheme: str = "http", name: str = "default", cluster: str = ""
    ) -> None:
        port = free_port()
        cluster = cluster or f"{name}=http://127.0.0.1:{free_port()}"
        peer = dict(member.split("=") for member in cluster.split(","))[name]
        client = f"{scheme}://127.0.0.1:{port}"
        command = [
            *("etcd", "--data-dir", str(data), "--log-level", "error", "--name", name),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", cluster),
            *options,
        ]
        super().__init__(port, data.with_suffix(".log"), command)


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


@contextlib.contextmanager
def running_kine(data: Path, notify_seconds: float = 5.0) -> Iterator[Kine]:
    """A server that behaves as kine does; it ends with the block."""
    kine = Kine(data, notify_seconds)
    kine.start()
    try:
        yield kine
    finally:
        kine.kill()


STORES = {"etcd": running_etcd, "kine": running_kine}
"""Start functions of the programs that serve etcd's protocol."""
