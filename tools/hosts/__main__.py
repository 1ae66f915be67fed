"""Lose hosts of a running cluster, and check the history of its clients: ``python -m tools.hosts``.

It needs root, ``ip`` and etcd. All traffic is inside network namespaces, which are removed at the end.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.hosts.client import STEADY
from tools.hosts.cluster import HostCluster, running
from tools.hosts.history import Fault, pause_of, problems, read_history, slowest_pod
from tools.hosts.network import Host, Network, NetworkUnavailable, network_of

HOSTS: Final = ("a", "b", "c", "work")
"""Three of the control plane, and that of the nodes."""
NODES: Final = ("n1", "n2")
UPGRADE: Final = "upgrade"


def _kill(cluster: HostCluster, host: Host) -> Callable[[], None]:
    programs = cluster.of(host)
    for program in programs:
        program.wanted = False
        program.signal(signal.SIGKILL)

    def undo() -> None:
        for program in programs:
            program.end()
            program.start()

    return undo


def _hang(cluster: HostCluster, host: Host) -> Callable[[], None]:
    programs = cluster.of(host)
    for program in programs:
        program.signal(signal.SIGSTOP)

    def undo() -> None:
        for program in programs:
            program.signal(signal.SIGCONT)

    return undo


def _cut(cluster: HostCluster, host: Host) -> Callable[[], None]:
    cluster.network.cut(host)
    return lambda: cluster.network.restore(host)


def _cut_one_way(cluster: HostCluster, host: Host) -> Callable[[], None]:
    cluster.network.cut_one_way(host)
    return lambda: cluster.network.restore(host)


FAULTS: Final[Mapping[str, Callable[[HostCluster, Host], Callable[[], None]]]] = {
    "kill": _kill,
    "hang": _hang,
    "cut": _cut,
    "cut-one-way": _cut_one_way,
}
"""Faults of a host. Each function returns the one that undoes it."""


@contextmanager
def clients(cluster: HostCluster, history: Path) -> Iterator[None]:
    """The clients on the host of the nodes. At the end they finish, and their history is complete."""
    command = (sys.executable, "-m", "tools.hosts.client", str(cluster.folder / "admin.kubeconfig"), str(history))
    words = cluster.worker.words(*command)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"prepared\n":
                raise RuntimeError("the clients did not start")
            yield
            process.send_signal(signal.SIGTERM)
            process.wait(120)
        finally:
            process.kill()


def inflict(cluster: HostCluster, fault: str, host: Host, seconds: float, pause: Callable[[float], None]) -> Fault:
    """Do something to a host for some seconds, and undo it."""
    began = time.monotonic()
    if fault == UPGRADE:
        cluster.upgrade("1.38", lambda: pause(2.0))
        pause(seconds)
        return Fault(fault, began, time.monotonic())
    undo = FAULTS[fault](cluster, host)
    try:
        pause(seconds)
    finally:
        undo()
    return Fault(f"{fault} {host.name}", began, time.monotonic())


def lose_hosts(
    network: Network, folder: Path, faults: Sequence[str], *, seconds: float, quiet: float
) -> tuple[list[Fault], Path]:
    """Run a cluster with clients, and do all of that to its hosts in turn. Return what was done, and the history."""
    history, done = folder / "history.jsonl", []
    with running(network, folder, release="1.37", nodes=NODES) as cluster, clients(cluster, history):
        hosts = itertools.cycle(cluster.control)
        time.sleep(quiet)
        for fault in faults:
            done.append(inflict(cluster, fault, next(hosts), seconds, time.sleep))
            print(f"{done[-1].name}: {done[-1].ended - done[-1].began:.1f} s", flush=True)
            time.sleep(quiet)
    return done, history


def main() -> int:
    """Run what the options name, and print a line for each fault."""
    parser = argparse.ArgumentParser(prog="tools.hosts", description=__doc__)
    parser.add_argument("--faults", default=",".join((*FAULTS, UPGRADE)), help="what to do to hosts, in this order")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="repetitions of the faults (default 1)")
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of each fault (default 20)")
    parser.add_argument("--quiet", type=float, default=10.0, help="seconds between two faults (default 10)")
    parser.add_argument("--history", type=Path, metavar="FILE", help="copy the history there")
    options = parser.parse_args()
    faults: list[str] = options.faults.split(",") * options.rounds
    if unknown := set(faults) - {*FAULTS, UPGRADE}:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    # An exception instead of the end of the process: namespaces and programs would stay.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with tempfile.TemporaryDirectory(prefix="hosts-") as folder, network_of(HOSTS) as network:
            done, path = lose_hosts(network, Path(folder), faults, seconds=options.seconds, quiet=options.quiet)
            history = read_history(path)
            if options.history is not None:
                options.history.write_bytes(path.read_bytes())
    except NetworkUnavailable as error:
        print(f"no hosts can be made here: {error}", file=sys.stderr)
        return 2
    for fault in done:
        pause, pod = pause_of(history, fault), slowest_pod(history, fault)
        print(f"{fault.name:16} writers paused for at most {pause:5.1f} s; slowest pod {pod:5.1f} s")
    found = list(problems(history, steady=STEADY))
    print(f"{len(history)} entries in the history, {len(found)} problems", *found[:20], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
