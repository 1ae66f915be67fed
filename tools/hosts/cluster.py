"""A cluster on several hosts: on each etcd, an API server, a scheduler and controllers, and on the last one the nodes.

Every part names all API servers, as docs/operations.md describes it. A part that ends is started again, as systemd does
it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.hosts.network import Host, Network

__all__ = ["HostCluster", "running"]

CATHEDRA: Final = (sys.executable, "-m", "cathedra.cli.main")
ELECTION: Final = (
    "--leader-elect",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
)
"""Half of Kubernetes' times, so that another scheduler leads within ten seconds. A part leaves a server that hangs
after five seconds at most, before its time to renew is over."""
GPUS: Final = 4
_START_SECONDS: Final = 120.0
_RESTART_SECONDS: Final = 1.0


@dataclass
class Program:
    """One process, which is started again when it ends by itself."""

    name: str
    host: Host
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    wanted: bool = False
    starts: int = 0
    _starting: threading.Lock = field(default_factory=threading.Lock)
    """Held during a start: the supervisor would take the process before it for one that has ended by itself."""

    def start(self) -> None:
        """Start it."""
        with self._starting:
            self._start()

    def start_again(self) -> None:
        """Start it if it has ended by itself."""
        with self._starting:
            if self.wanted and self.process is not None and self.process.poll() is not None:
                self._start()

    def _start(self) -> None:
        self.wanted = True
        self.starts += 1
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self, number: int = signal.SIGKILL) -> None:
        """End it by a signal; it is not started again."""
        self.wanted = False
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            self.process.wait(60)

    def signal(self, number: int) -> None:
        """Send a signal."""
        if self.process is not None:
            self.process.send_signal(number)

    def text(self) -> str:
        """Return what it has logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


@dataclass
class HostCluster:
    """The programs of all hosts."""

    network: Network
    folder: Path
    release: str
    programs: list[Program] = field(default_factory=list)

    @property
    def control(self) -> Sequence[Host]:
        """The hosts of the control plane."""
        return self.network.hosts[:-1]

    @property
    def worker(self) -> Host:
        """The host of the nodes and of the clients."""
        return self.network.hosts[-1]

    @property
    def servers(self) -> list[str]:
        """The options that name all API servers."""
        return [f"--server=https://{host.address}:6443" for host in self.control]

    def start(self, nodes: Sequence[str]) -> None:
        """Start everything, and wait until the nodes' devices are published."""
        for host in self.control:
            self._start(self._etcd(host))
        first, *others = self.control
        self._start(self._apiserver(first))
        self._wait(f"apiserver-{first.name}", "export KUBECONFIG=")
        for host in others:
            shutil.copytree(self._data(first) / "pki", self._data(host) / "pki")
            self._start(self._apiserver(host))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._kubeconfig, ("admin", "scheduler", "controller-manager")))
            list(pool.map(self._enrol, nodes))
        for host in self.control[:2]:
            self._start(self._elected(host, "scheduler"))
            self._start(self._elected(host, "controller-manager", "--use-service-account-credentials"))
        for node in nodes:
            self._start(self._node(node))
        for node in nodes:
            self._wait(f"node-{node}", f"node {node} is Ready")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._kubeconfig, [f"driver:gpu.example.com@{node}" for node in nodes]))
        for node in nodes:
            self._start(self._driver(node))
        for node in nodes:
            self._wait(f"driver-{node}", f"published {GPUS} devices")
        for host in others:
            self._wait(f"apiserver-{host.name}", "export KUBECONFIG=")

    def of(self, host: Host) -> list[Program]:
        """Return the programs of a host."""
        return [program for program in self.programs if program.host is host]

    def program(self, name: str) -> Program:
        """Return a program by its name."""
        return next(program for program in self.programs if program.name == name)

    def upgrade(self, release: str, pause: Callable[[], None]) -> None:
        """Restart the parts with another release, one after the other: API servers, controllers, schedulers, nodes."""
        self.release = release
        order = ("apiserver-", "controller-manager-", "scheduler-", "node-")
        for prefix in order:
            for program in [one for one in self.programs if one.name.startswith(prefix)]:
                program.end(signal.SIGTERM)
                program.command = [
                    f"--kubernetes-version={release}" if word.startswith("--kubernetes-version=") else word
                    for word in program.command
                ]
                program.start()
                pause()

    def supervise(self, stopped: threading.Event) -> None:
        """Start programs again that have ended by themselves, until ``stopped``."""
        while not stopped.wait(_RESTART_SECONDS):
            for program in tuple(self.programs):
                program.start_again()

    def end(self) -> None:
        """End all programs."""
        for program in reversed(self.programs):
            program.wanted = False
            program.signal(signal.SIGCONT)
            program.signal(signal.SIGTERM if program.name.startswith("node-") else signal.SIGKILL)
        for program in self.programs:
            if program.process is not None:
                try:
                    program.process.wait(20)
                except subprocess.TimeoutExpired:
                    program.process.kill()
                    program.process.wait(20)

    def _start(self, program: Program) -> None:
        self.programs.append(program)
        program.start()

    def _wait(self, name: str, text: str) -> None:
        program, until = self.program(name), time.monotonic() + _START_SECONDS
        while text not in program.text():
            if time.monotonic() > until:
                raise TimeoutError(f"{name} did not start:\n{program.text()[-4000:]}")
            time.sleep(0.1)

    def _made(self, name: str, host: Host, *command: str) -> Program:
        return Program(name, host, host.words(*command), self.folder / f"{name}.log")

    def _data(self, host: Host) -> Path:
        return self.folder / host.name

    def _etcd(self, host: Host) -> Program:
        peers = ",".join(f"{one.name}=http://{one.address}:2380" for one in self.control)
        client, peer = f"http://{host.address}:2379", f"http://{host.address}:2380"
        return self._made(
            f"etcd-{host.name}",
            host,
            *("etcd", "--name", host.name, "--data-dir", str(self.folder / f"etcd-{host.name}")),
            *("--log-level", "error", "--initial-cluster", peers, "--initial-advertise-peer-urls", peer),
            *("--listen-peer-urls", peer, "--listen-client-urls", client, "--advertise-client-urls", client),
        )

    def _apiserver(self, host: Host) -> Program:
        # The member on the same host first; the others when it does not answer.
        members = sorted(self.control, key=lambda one: one is not host)
        store = ",".join(f"{one.address}:2379" for one in members)
        return self._made(
            f"apiserver-{host.name}",
            host,
            *(*CATHEDRA, "apiserver", f"--data-dir={self._data(host)}", f"--store=etcd://{store}", "--port=6443"),
            *("--bind-address=0.0.0.0", f"--advertise-address={host.address}", f"--kubernetes-version={self.release}"),
        )

    def _elected(self, host: Host, part: str, *options: str) -> Program:
        # The server on the same host first.
        return self._made(
            f"{part}-{host.name}",
            host,
            *(*CATHEDRA, part, f"--kubeconfig={self.folder / part}.kubeconfig", *ELECTION, *options),
            f"--kubernetes-version={self.release}",
        )

    def _node(self, node: str) -> Program:
        files = self.folder / f"files-{node}"
        return self._made(
            f"node-{node}",
            self.worker,
            *(*CATHEDRA, "node", f"--node-name={node}", f"--root-dir={self.folder / node}", "--runtime=process"),
            *(f"--node-ip={self.worker.address}", f"--kubeconfig={files / 'kubeconfig'}", "--keep-containers"),
            *(f"--tls-cert-file={files / 'kubelet.crt'}", f"--tls-private-key-file={files / 'kubelet.key'}"),
            *(f"--client-ca-file={files / 'client-ca.crt'}", f"--kubernetes-version={self.release}"),
        )

    def _driver(self, node: str) -> Program:
        return self._made(
            f"driver-{node}",
            self.worker,
            *(*CATHEDRA, "driver", f"--node-name={node}", f"--root-dir={self.folder / node}", f"--gpus={GPUS}"),
            f"--kubeconfig={self.folder / f'driver-{node}'}.kubeconfig",
        )

    def _kubeconfig(self, part: str) -> None:
        first = self.control[0]
        kind, _, rest = part.partition(":")
        name = f"{kind}-{rest.partition('@')[2]}" if rest else kind
        words = first.words(*CATHEDRA, "kubeconfig", f"--data-dir={self._data(first)}", f"--for={part}", *self.servers)
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
        (self.folder / f"{name}.kubeconfig").write_text(done.stdout)

    def _enrol(self, node: str) -> None:
        first = self.control[0]
        words = (*CATHEDRA, "enrol", f"--data-dir={self._data(first)}", f"--node-name={node}", *self.servers)
        where = (f"--address={self.worker.address}", f"--to={self.folder / f'files-{node}'}")
        subprocess.run(first.words(*words, *where), capture_output=True, text=True, timeout=120, check=True)


@contextmanager
def running(network: Network, folder: Path, *, release: str, nodes: Sequence[str]) -> Iterator[HostCluster]:
    """A cluster on the hosts of a network, which ends with the block."""
    cluster, stopped = HostCluster(network, folder, release), threading.Event()
    supervisor = threading.Thread(target=cluster.supervise, args=(stopped,), daemon=True)
    try:
        cluster.start(nodes)
        supervisor.start()
        yield cluster
    finally:
        stopped.set()
        if supervisor.is_alive():
            supervisor.join()
        cluster.end()
