"""The shared store's price: the same loads on etcd and on SQLite, beside each other, with etcd's own processor time.

etcd runs without fsync, as for the figures of Kubernetes; nothing is measured where it is not installed.

    python -m benchmarks etcd
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.apiserver import SECONDS, Load, Server
from benchmarks.scheduler import WORKLOADS, alone
from benchmarks.scheduler.staging import Arrangement

__all__ = ["rows", "running_etcd"]

Row = tuple[str, float, str, str | float | None, str | float | None]

WORKLOAD = "SchedulingWithResourceClaimTemplate/2000pods_100nodes"


def rows() -> Iterator[Row]:
    """Requests over TLS to an API server on each store, and pods in one process."""
    if shutil.which("etcd") is None:
        return
    for store in ("sqlite", "etcd"):
        with tempfile.TemporaryDirectory() as folder, running_etcd() as etcd:
            server = Server(Path(folder), store=etcd.url if store == "etcd" else "sqlite")
            try:
                server.start()
                yield from _requests(store, Load(server, SECONDS), etcd)
            finally:
                server.stop()
    for workload in WORKLOADS:
        if workload.name == WORKLOAD:
            for arrangement in (Arrangement.ONE, Arrangement.ETCD):
                found = alone(workload, arrangement)
                name = f"{workload.name}, {arrangement.value}"
                yield name, found.per_second, "pods/s", None, None
                yield f"{name}, processor time", found.processor, "ms/pod", None, None


def _requests(store: str, load: Load, etcd: Etcd) -> Iterator[Row]:
    load.run("fill", what="namespace", count=1)
    for name, what in (("PATCH", "patch"), ("POST", "post")):
        before = etcd.processor()
        found = load.run(what)
        yield f"{name} a config map, {store}", found["rate"], "req/s", None, None
        yield f"{name}, {store}, processor time of the server", found["server"], "µs each", None, None
        if store == "etcd":
            spent = (etcd.processor() - before) / (found["rate"] * SECONDS)
            yield f"{name}, {store}, processor time of etcd", spent * 1e6, "µs each", None, None


class Etcd:
    """A member that runs."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.url = f"etcd://127.0.0.1:{port}"

    def processor(self) -> float:
        """Seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@contextlib.contextmanager
def running_etcd() -> Iterator[Etcd]:
    """An etcd that ends with the block."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as one, socket.socket() as other:
        ports = []
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
        one.close()
        other.close()
        client, peer = (f"http://127.0.0.1:{port}" for port in ports)
        process = subprocess.Popen(
            [
                *("etcd", "--data-dir", folder, "--unsafe-no-fsync", "--log-level", "error"),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"default={peer}"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", ports[0]), 0.2):
                    break
                time.sleep(0.02)
            yield Etcd(process.pid, ports[0])
        finally:
            process.kill()
            process.wait()
