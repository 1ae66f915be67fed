"""Moves an interface into the network namespace of a container: ``python -m cathedra.drivers.hooks.netns PLAN``.

The plan is JSON: which interface of the host, what it is to be called, its addresses, routes, MTU and MAC. The
namespace gets a name, ``ip netns`` knows it by that, so that the driver finds the interface again when the claim is
unprepared. A container that shares the network of its host has the interface already, and nothing is done.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cathedra.drivers.hooks.state import ContainerState, HookError, fail, read_state

NAMESPACES: Final = Path("/var/run/netns")
_CLONE_NEWNET: Final = 0x40000000


@dataclass(frozen=True)
class InterfacePlan:
    """Instructions for one interface."""

    link: str
    """Its name on the host."""
    name: str
    """Its name in the container."""
    namespace: str
    """The name that the container's namespace gets."""
    addresses: tuple[str, ...] = ()
    """Addresses with prefix length, as ``10.0.0.5/24``."""
    routes: tuple[dict[str, str], ...] = ()
    """``destination`` with ``gateway`` and ``source``, as far as they are given."""
    mtu: int | None = None
    mac: str = ""
    report: str = ""
    """Socket of the driver, to which the interface in the container is reported; "": not reported."""

    def to_json(self) -> str:
        """Return the plan as an argument of the program."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def parse(text: str) -> InterfacePlan:
        """Return the plan of an argument.

        Raises:
            HookError: it is none.
        """
        try:
            values: dict[str, Any] = json.loads(text)
            values["addresses"], values["routes"] = tuple(values["addresses"]), tuple(values["routes"])
            return InterfacePlan(**values)
        except (ValueError, TypeError, KeyError) as error:
            raise HookError(f"no plan: {error!r}") from error


def attach(state: ContainerState, plan: InterfacePlan) -> bool:
    """Move the interface and set it up; answers whether there was anything to do.

    Calls for further containers of the same pod find it there and set it up again.

    Raises:
        HookError: the kernel refuses; the text is that of ``ip``.
    """
    theirs = Path(f"/proc/{state.pid}/ns/net")
    if os.path.samefile(theirs, "/proc/self/ns/net"):
        return False
    if not (NAMESPACES / plan.namespace).exists():
        _ip("netns", "attach", plan.namespace, str(state.pid))
    if _exists(plan.link):
        _ip("link", "set", "dev", plan.link, "down")
        _ip("link", "set", "dev", plan.link, "netns", plan.namespace, "name", plan.name)
    _enter(theirs)
    _set_up(plan)
    if plan.report:
        _report(plan)
    return True


def _set_up(plan: InterfacePlan) -> None:
    if plan.mac:
        _ip("link", "set", "dev", plan.name, "address", plan.mac)
    if plan.mtu is not None:
        _ip("link", "set", "dev", plan.name, "mtu", str(plan.mtu))
    for address in plan.addresses:
        _ip("address", "replace", address, "dev", plan.name)
    _ip("link", "set", "dev", plan.name, "up")
    for route in plan.routes:
        words = [route["destination"]]
        words += ["via", route["gateway"]] if route.get("gateway") else []
        words += ["src", route["source"]] if route.get("source") else []
        _ip("route", "replace", *words, "dev", plan.name)


def _report(plan: InterfacePlan) -> None:
    """Report the moved interface to the driver. If it does not run, it reads the interface itself at its next start."""
    (link,) = json.loads(_ip("-json", "address", "show", "dev", plan.name))
    found = [one for one in link.get("addr_info", ()) if one.get("scope") == "global"]
    report = {
        "namespace": plan.namespace,
        "name": plan.name,
        "mac": link.get("address", ""),
        "addresses": [f"{one['local']}/{one['prefixlen']}" for one in found],
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as telling:
        try:
            telling.sendto(json.dumps(report).encode(), plan.report)
        except OSError as error:
            print(f"netns hook: {plan.report}: {error.strerror}", file=sys.stderr)


def _exists(link: str) -> bool:
    return Path("/sys/class/net", link).exists()


def _enter(namespace: Path) -> None:
    """Enter the network namespace of the container, with all programs that are started from here on."""
    libc = ctypes.CDLL(None, use_errno=True)
    with namespace.open() as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise HookError(f"cannot enter {namespace}: {os.strerror(number)}")


def _ip(*words: str) -> str:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise HookError(f"ip: {error.strerror}") from error
    if done.returncode != 0:
        raise HookError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    """Move the planned interfaces into the container; exit with an error if that fails."""
    try:
        if len(sys.argv) != 2:
            raise HookError("one argument is expected: the plan")
        attach(read_state(sys.stdin), InterfacePlan.parse(sys.argv[1]))
    except (HookError, OSError) as error:
        fail("netns hook", error)


if __name__ == "__main__":
    main()
