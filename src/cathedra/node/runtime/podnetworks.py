"""A network namespace for each pod of a runtime without sandboxes (option ``--pod-network``).

A pod has a pair of virtual interfaces: ``eth0`` in its namespace, and an end on the node with a route to the pod's
address. The node's end is the pod's gateway, at a link-local address that every pod sees, so neither a bridge nor a
CNI plugin is needed. Forwarding is switched on for the node's ends alone: pods reach each other and the node.
Nothing is translated, so other machines and what the node serves at its loopback address are not reached.

The kernel keeps namespace, interfaces and routes when the agent is killed. A file for each pod, written before anything
is made, names what an agent finds again or removes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import hashlib
import os
import socket
import subprocess
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

import msgspec

from cathedra.files.atomic import write_atomic
from cathedra.node.runtime.runtime import (
    PodIdentity,
    PortConnection,
    RunningSandbox,
    RuntimeFailure,
    SandboxSpec,
    UnusableRuntime,
)

_NAMESPACES: Final = Path("/run/netns")
"""The place where ``ip netns`` mounts namespaces."""
_PROBE: Final = "probe-"
"""Start of the UID of a probe; its process follows."""
_GATEWAY: Final = "169.254.1.1"
_CLONE_NEWNET: Final = 0x40000000
_COMMAND_SECONDS: Final = 10.0
_CHUNK_BYTES: Final = 32 * 1024


class PodNetwork(msgspec.Struct, frozen=True):
    """The network of one pod, as its file has it."""

    namespace: str
    name: str
    uid: str
    address: str = ""
    """"" until it is made, and for a pod in the node's network."""


class PodNetworks:
    """The networks of the pods of one node, with addresses of ``subnet``."""

    def __init__(self, subnet: IPv4Network, directory: Path) -> None:
        """``directory`` has the files of the pods."""
        self._subnet = subnet
        self._directory = directory

    async def probe(self) -> None:
        """Make and remove a namespace with interfaces.

        It also mounts ``/run/netns``, which must happen before the shim starts: the shim sees mounts below it only if
        it was a mount point by then.

        Raises:
            UnusableRuntime: this machine does not allow it.
        """
        identity = PodIdentity("", "probe", f"{_PROBE}{os.getpid()}")
        try:
            await asyncio.to_thread(self._probe, identity)
        except _CommandFailed as error:
            raise UnusableRuntime("with --pod-network", str(error)) from None

    def _probe(self, identity: PodIdentity) -> None:
        if os.geteuid() != 0:
            raise _CommandFailed("it needs root")
        for left in _abandoned_probes():
            _unmake(left)
        try:
            self._make(identity.uid)
        finally:
            _unmake(identity.uid)

    async def run(self, spec: SandboxSpec) -> RunningSandbox:
        """Make the network of a pod, or find it."""
        if spec.host_network:
            return RunningSandbox(spec.pod.uid)
        if spec.host_ports:
            text = "hostPort is not supported with --pod-network: use hostNetwork, or --runtime cri with a CNI plugin"
            raise RuntimeFailure("FailedCreatePodSandBox", text)
        try:
            address = await asyncio.to_thread(self._ensure, spec.pod)
        except (_CommandFailed, OSError) as error:
            raise RuntimeFailure("FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}") from error
        return RunningSandbox(spec.pod.uid, address)

    async def stop(self, pod_uid: str) -> None:
        """Do nothing: the pod's containers are stopped one by one, and use the network until they end."""

    async def remove(self, pod_uid: str) -> None:
        """Remove the network of a pod."""
        await asyncio.to_thread(self._remove, pod_uid)

    async def pods(self) -> tuple[PodIdentity, ...]:
        """Return the pods that have a network, complete or not."""
        return await asyncio.to_thread(self._listed)

    async def connect(self, pod_uid: str, port: int) -> PortConnection:
        """Connect to a port at the pod's localhost, as a kubelet's port-forward does."""
        namespace = namespace_path(pod_uid)
        if namespace is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the pod has no network of its own")
        opened = await asyncio.to_thread(_socket_in, namespace)
        opened.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", port))
        except BaseException:
            opened.close()
            raise
        return await SocketConnection.over(opened)

    def _ensure(self, pod: PodIdentity) -> str:
        path = self._directory / pod.uid
        self._directory.mkdir(mode=0o700, exist_ok=True)
        known = _read(path)
        if known is not None and known.address and namespace_path(pod.uid) is not None:
            return known.address
        # The file comes first: what an agent leaves when it is killed below is removed by the next one.
        record = PodNetwork(pod.namespace, pod.name, pod.uid)
        write_atomic(path, msgspec.json.encode(record), mode=0o600)
        _unmake(pod.uid)
        try:
            address = self._make(pod.uid)
            write_atomic(path, msgspec.json.encode(msgspec.structs.replace(record, address=address)), mode=0o600)
        except BaseException:
            self._remove(pod.uid)
            raise
        return address

    def _make(self, uid: str) -> str:
        inside, outside = _namespace(uid), _interface(uid)
        _ip("netns", "add", inside)
        _ip("-n", inside, "link", "set", "lo", "up")
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", inside)
        _ip("address", "add", f"{_GATEWAY}/32", "dev", outside)
        _ip("link", "set", outside, "up")
        Path(f"/proc/sys/net/ipv4/conf/{outside}/forwarding").write_text("1")
        address = self._take_address(outside)
        _ip("-n", inside, "address", "add", f"{address}/32", "dev", "eth0")
        _ip("-n", inside, "link", "set", "eth0", "up")
        _ip("-n", inside, "route", "add", "default", "via", _GATEWAY, "dev", "eth0", "onlink")
        return address

    def _take_address(self, interface: str) -> str:
        """Return an address that no other pod of the machine has, and route it to an interface."""
        taken = {line.split()[0] for line in _ip("route", "show", "root", str(self._subnet)).splitlines() if line}
        for host in self._subnet.hosts():
            if str(host) in taken:
                continue
            # The kernel refuses a second route to one address: agents of several nodes can choose at the same time.
            with contextlib.suppress(_CommandFailed):
                _ip("route", "add", f"{host}/32", "dev", interface)
                return str(host)
        raise _CommandFailed(f"no address is left in {self._subnet}")

    def _remove(self, uid: str) -> None:
        _unmake(uid)
        (self._directory / uid).unlink(missing_ok=True)

    def _listed(self) -> tuple[PodIdentity, ...]:
        if not self._directory.is_dir():
            return ()
        found = (_read(path) for path in sorted(self._directory.iterdir()))
        return tuple(PodIdentity(one.namespace, one.name, one.uid) for one in found if one is not None)


def remove_networks(directory: Path) -> None:
    """Remove the networks of all pods that have a file in a directory: those of a node that was killed."""
    if not directory.is_dir():
        return
    # The name of the file is the UID, also where the agent was killed before it had written the rest.
    for path in sorted(directory.iterdir()):
        _unmake(path.name)
        path.unlink(missing_ok=True)


class SocketConnection:
    """A connection to a port, in the node's network or in that of a pod."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @staticmethod
    async def open(address: str, port: int) -> PortConnection:
        """Connect.

        Raises:
            OSError: nothing listens there.
        """
        return SocketConnection(*await asyncio.open_connection(address, port, limit=_CHUNK_BYTES))

    @staticmethod
    async def over(connected: socket.socket) -> PortConnection:
        """Return the connection of a connected socket."""
        return SocketConnection(*await asyncio.open_connection(sock=connected, limit=_CHUNK_BYTES))

    async def read(self) -> bytes:
        """Return the next data; b"" at the end."""
        return await self._reader.read(_CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        """Send, and wait while too much is on the way."""
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        """Note that nothing more will be sent."""
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    def close(self) -> None:
        """Close the connection to the pod."""
        self._writer.close()


class _CommandFailed(Exception):
    """A command could not be carried out; the text is its own."""


def namespace_path(pod_uid: str) -> Path | None:
    """Return the file of a pod's network namespace; None if it has none."""
    path = _NAMESPACES / _namespace(pod_uid)
    return path if path.exists() else None


def _unmake(uid: str) -> None:
    # Interface first: it takes its route with it, so the address is free even if containers still hold the namespace
    # for a moment.
    for words in (("link", "delete", _interface(uid)), ("netns", "delete", _namespace(uid))):
        with contextlib.suppress(_CommandFailed):
            _ip(*words)


def _abandoned_probes() -> list[str]:
    """Return the UIDs of probes whose process was killed before it had removed them."""
    found = (path.name.removeprefix(_namespace("")) for path in _NAMESPACES.glob(f"{_namespace(_PROBE)}*"))
    return [uid for uid in found if not Path("/proc", uid.removeprefix(_PROBE)).exists()]


def _namespace(uid: str) -> str:
    return f"cathedra-{uid}"


def _interface(uid: str) -> str:
    """Return the name of the node's end; names of interfaces have 15 characters at most."""
    return f"cth{hashlib.sha256(uid.encode()).hexdigest()[:12]}"


def _read(path: Path) -> PodNetwork | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PodNetwork)
    except (OSError, msgspec.MsgspecError):
        return None


def _ip(*words: str) -> str:
    command = ["ip", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _CommandFailed(f"ip: {error}") from error
    if done.returncode != 0:
        raise _CommandFailed(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _socket_in(namespace: Path) -> socket.socket:
    """Return a socket that was made in a network namespace, where it stays."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Namespaces belong to threads. The thread of the pool returns to its own before anything else runs in it.
    with open("/proc/thread-self/ns/net") as own, namespace.open() as wanted:
        _enter(libc, wanted.fileno())
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        finally:
            _enter(libc, own.fileno())


def _enter(libc: ctypes.CDLL, descriptor: int) -> None:
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
