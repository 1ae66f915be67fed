"""Hosts as network namespaces, joined by a bridge in a namespace of its own. It needs root and the program ``ip``.

All addresses are private, and no interface leads out of the namespaces.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

__all__ = ["Host", "Network", "NetworkUnavailable", "network_of"]

SUBNET = "10.231.79"


class NetworkUnavailable(Exception):
    """Namespaces cannot be made here."""


@dataclass(frozen=True)
class Host:
    """A network namespace with one address."""

    name: str
    namespace: str
    address: str

    def words(self, *words: str) -> list[str]:
        """Return the command that runs ``words`` on this host."""
        return ["ip", "netns", "exec", self.namespace, *words]


@dataclass(frozen=True)
class Network:
    """The hosts, and the switch between them."""

    hosts: Sequence[Host]
    switch: str

    def cut(self, host: Host) -> None:
        """Take the link of a host down at the switch: nothing arrives at it and nothing from it."""
        _ip("-n", self.switch, "link", "set", "dev", host.name, "down")

    def cut_one_way(self, host: Host) -> None:
        """Drop what the others send to a host. What it sends still arrives."""
        for other in self._others(host):
            _ip("-n", other.namespace, "route", "add", "blackhole", f"{host.address}/32")

    def restore(self, host: Host) -> None:
        """Undo `cut` and `cut_one_way`."""
        _ip("-n", self.switch, "link", "set", "dev", host.name, "up")
        for other in self._others(host):
            subprocess.run(
                ["ip", "-n", other.namespace, "route", "delete", "blackhole", f"{host.address}/32"],
                capture_output=True,
                check=False,
            )

    def _others(self, host: Host) -> list[Host]:
        return [other for other in self.hosts if other is not host]


@contextmanager
def network_of(names: Sequence[str]) -> Iterator[Network]:
    """Make hosts of these names, and remove them at the end.

    Raises:
        NetworkUnavailable: this user or machine cannot make namespaces.
    """
    mark = os.getpid() % 100_000
    switch = f"cathedra-switch-{mark}"
    hosts = [Host(name, f"cathedra-{name}-{mark}", f"{SUBNET}.{number}") for number, name in enumerate(names, 1)]
    with ExitStack() as stack:
        for namespace in (switch, *(host.namespace for host in hosts)):
            _ip("netns", "add", namespace)
            # The links of a namespace go with it.
            stack.callback(subprocess.run, ["ip", "netns", "delete", namespace], check=False)
        _ip("-n", switch, "link", "add", "name", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "dev", "bridge", "up")
        for host in hosts:
            inside = ("peer", "name", "uplink", "netns", host.namespace)
            _ip("-n", switch, "link", "add", "name", host.name, "type", "veth", *inside)
            _ip("-n", switch, "link", "set", "dev", host.name, "master", "bridge", "up")
            _ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "uplink")
            _ip("-n", host.namespace, "link", "set", "dev", "uplink", "up")
            _ip("-n", host.namespace, "link", "set", "dev", "lo", "up")
        yield Network(hosts, switch)


def _ip(*words: str) -> None:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise NetworkUnavailable(f"ip cannot be run: {error}") from error
    if done.returncode != 0:
        raise NetworkUnavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")
