"""The driver of network interfaces.

Preparing creates interfaces on the host, and records the state of existing ones: addresses, routes, up or down. The
hook moves the interface once the container's network namespace exists. Unpreparing moves it back, under its name and
with its recorded state; a created interface is removed.

Hooks report the addresses of moved interfaces over a socket. Whether a pod has a network of its own is known only when
its first container is created. The status of a claim is therefore written after the hook has moved the interface, with
the addresses that the kernel has there (docs/spec/driver-sdk.md §14).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.resource import AllocatedDeviceStatus, NetworkDeviceData
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.driver import (
    Claim,
    Device,
    Driver,
    DriverError,
    Edits,
    Hook,
    Prepared,
    PreparedClaim,
    PreparedDeviceRecord,
    Ref,
)
from cathedra.driver.claim import ClaimedDevice
from cathedra.driver.preparing.status import write_device_status
from cathedra.drivers.configfile import read_config
from cathedra.drivers.hooks.netns import InterfacePlan
from cathedra.drivers.net.config import (
    WITH_PARENT,
    NetDriverConfig,
    NetworkParameters,
    VirtualLink,
    free_address,
    read_parameters,
)
from cathedra.drivers.net.inventory import device_name, host_devices, virtual_device
from cathedra.drivers.uevents import LOST, uevents

REPORT_SOCKET: Final = "net.sock"
"""The socket's name in the driver's directory."""

_LOG: Final = logging.getLogger(__name__)


class Report(msgspec.Struct, frozen=True):
    """An interface in the network of a pod."""

    namespace: str
    """The name of the network, by which the claim is found."""
    name: str
    mac: str = ""
    addresses: tuple[str, ...] = ()
    """Addresses with prefix length, as ``10.0.0.5/24``."""

    def data(self) -> NetworkDeviceData:
        """Return the same for the status of a claim."""
        return NetworkDeviceData(interface_name=self.name, ips=self.addresses, hardware_address=self.mac)


def report_of(namespace: str, link: Mapping[str, Any]) -> Report:
    """Return the report of an interface as ``ip -json address`` shows it."""
    addresses = tuple(
        f"{one['local']}/{one['prefixlen']}" for one in link.get("addr_info", ()) if one.get("scope") == "global"
    )
    return Report(namespace, str(link["ifname"]), str(link.get("address", "")), addresses)


class _Receiver(asyncio.DatagramProtocol):
    def __init__(self, heard: Callable[[Report], None]) -> None:
        self._heard = heard

    def datagram_received(self, data: bytes, addr: object) -> None:
        try:
            report = msgspec.json.decode(data, type=Report)
        except msgspec.DecodeError as error:
            _LOG.warning("a report of an interface cannot be read: %s", error)
            return
        self._heard(report)


@asynccontextmanager
async def receiving_reports(directory: Path, heard: Callable[[Report], None]) -> AsyncIterator[None]:
    """Call ``heard`` with the reports of hooks while the body runs.

    Raises:
        OSError: the socket cannot be created.
    """
    path = directory / REPORT_SOCKET
    path.unlink(missing_ok=True)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: _Receiver(heard), local_addr=str(path), family=socket.AF_UNIX
    )
    path.chmod(0o600)
    try:
        yield
    finally:
        transport.close()
        path.unlink(missing_ok=True)


_MODES: Final = {"macvlan": ("mode", "bridge"), "ipvlan": ("mode", "l2"), "veth": (), "dummy": ()}


@dataclass(frozen=True, slots=True)
class PreparedLink:
    """An interface that is prepared for a claim, in its pod's network or on its way there."""

    ref: Ref
    pool: str
    device: str
    share_id: str | None
    name: str
    """Name in the container."""
    addresses: tuple[str, ...]
    """Addresses to set on the interface."""


class NetDriver(Driver):
    """The network interfaces of this machine."""

    cdi_class = "net"
    validate_names = False

    def __init__(self, config: Path | None = None, sysfs: Path = Path("/sys"), ip: IpCommand | None = None) -> None:
        """``sysfs`` and ``ip``: access to the machine.

        Raises:
            OptionError: the configuration is invalid.
        """
        self.config = read_config(config, NetDriverConfig)
        self.name = self.config.driver
        self._sysfs = sysfs
        self._ip = ip or IpCommand()
        self._virtual = {device_name(link.name): link for link in self.config.virtual}
        self._moved: dict[str, tuple[str, Device]] = {}
        """Interfaces that are in containers now: their devices stay published."""
        self._prepared: dict[str, PreparedLink] = {}
        """Namespace → prepared interfaces."""
        self._told: dict[str, dict[tuple[str, str | None], AllocatedDeviceStatus]] = {}
        """Claim UID → device and share → entry in its status."""

    async def devices(self) -> list[Device]:
        """Return interfaces of the host, those that claims hold included, and those that can be made."""
        found = await self._found()
        return [
            *(device for _, (_, device) in sorted({**self._moved, **found}.items())),
            *(virtual_device(link) for link in self.config.virtual),
        ]

    async def prepare(self, claim: Claim) -> AsyncIterator[Prepared]:
        """Make the interface ready on the host, and have the runtime move it.

        Raises:
            LinkError: the kernel refuses.
            ConfigError: the parameters cannot be understood.
        """
        for number, allocation in enumerate(claim.allocations):
            virtual = self._virtual.get(allocation.device)
            parameters = self._parameters(claim.uid, allocation, virtual)
            link = await self._host_link(allocation) if virtual is None else _made_name(claim.uid, allocation)
            before = await self._state_of(link) if virtual is None else await self._make(virtual, link)
            name = parameters.interface.name or (link if virtual is None else f"net{number}")
            plan = self._plan(claim.uid, allocation, link, name, parameters)
            data = NetworkDeviceData(
                interface_name=name,
                ips=tuple(parameters.interface.addresses),
                hardware_address=parameters.interface.mac or str(before.get("address", "")),
            )
            memory = {"link": link, "name": name, "namespace": plan.namespace, "made": virtual is not None, **before}
            # After a restart these addresses count as taken, although no interface of the host has them.
            memory["given"] = list(plan.addresses)
            self._prepared[plan.namespace] = PreparedLink(
                claim.ref, allocation.pool, allocation.device, allocation.share_id, name, plan.addresses
            )
            # The record of the interface's state goes to the checkpoint with this result. It must be taken before the
            # hook changes anything.
            yield allocation.prepared(Edits(hooks=[_hook(plan)]), network_data=data, memory=memory)

    async def unprepare(self, ref: Ref, prepared: PreparedClaim) -> None:
        """Take the interfaces back, or remove those that were made.

        Raises:
            LinkError: the kernel refuses; the node agent tries again.
        """
        for device in prepared.devices:
            # An entry without memory was interrupted before `prepare` returned.
            if device.memory:
                await self._give_back(device)
            elif device.device in self._virtual:
                # The driver ended before it could remember; what it may have made is called after the claim.
                await self._ip.try_to("link", "delete", "dev", _made_name(ref.uid, device))
            self._moved.pop(device.device, None)
            self._prepared.pop(_namespace(ref.uid, device), None)
        self._told.pop(ref.uid, None)
        self.republish()

    def resume(self, prepared: Sequence[PreparedClaim]) -> None:
        """Restore the addresses of prepared interfaces, which are reported once they are moved."""
        for claim in prepared:
            for device in claim.devices:
                if device.memory:
                    self._prepared[str(device.memory["namespace"])] = PreparedLink(
                        claim.ref,
                        device.pool,
                        device.device,
                        device.share_id,
                        str(device.memory["name"]),
                        tuple(map(str, device.memory.get("given", ()))),
                    )

    async def background(self, client: Client, directory: Path | None) -> None:
        """Publish again when the kernel reports an added or removed interface, and report moved interfaces."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_uevents())
            if directory is not None:
                group.create_task(self._report_moves(client, directory))

    async def _report_moves(self, client: Client, directory: Path) -> None:
        heard: asyncio.Queue[Report] = asyncio.Queue()
        async with receiving_reports(directory, heard.put_nowait):
            # Hooks that ran while no driver was listening reported to no one.
            for namespace, known in tuple(self._prepared.items()):
                found = await self._ip.link_in(namespace, known.name)
                if found is not None:
                    heard.put_nowait(report_of(namespace, found))
            while True:
                await self._write_status(client, await heard.get())

    async def _write_status(self, client: Client, report: Report) -> None:
        known = self._prepared.get(report.namespace)
        if known is None:
            return
        entry = AllocatedDeviceStatus(
            driver=self.name,
            pool=known.pool,
            device=known.device,
            share_id=known.share_id,
            network_data=report.data(),
        )
        try:
            await write_device_status(client.as_manager(self.name), known.ref, self._entries(known.ref, entry))
        except (StatusError, ConnectionError) as error:
            self.on_error(error, f"write device status of claim {known.ref}", recoverable=True)

    def _entries(self, ref: Ref, entry: AllocatedDeviceStatus) -> tuple[AllocatedDeviceStatus, ...]:
        """Record an entry, and return all entries of the claim: an apply removes those that it leaves out."""
        told = self._told.setdefault(ref.uid, {})
        told[entry.device, entry.share_id] = entry
        return tuple(told.values())

    async def _follow_uevents(self) -> None:
        try:
            async with uevents() as events:
                async for event in events:
                    if event.get("SUBSYSTEM") == "net" or event is LOST:
                        self.republish()
        except OSError as error:
            _LOG.warning("%s: interfaces that come later are not noticed: no uevents: %s", self.name, error)

    def _parameters(self, uid: str, allocation: ClaimedDevice, virtual: VirtualLink | None) -> NetworkParameters:
        """Return the claim's parameters, with an address of the range if it requests none.

        Raises:
            ConfigError: the parameters are invalid.
        """
        asked = read_parameters(allocation.parameters[-1] if allocation.parameters else {})
        if virtual is None or not virtual.addresses or asked.interface.addresses:
            return asked
        before = self._prepared.get(_namespace(uid, allocation))
        taken = {address for known in self._prepared.values() for address in known.addresses}
        address = before.addresses[0] if before and before.addresses else free_address(virtual.addresses, taken)
        if address is None:
            raise DriverError(f"{allocation.device}: every address of {virtual.addresses} is taken")
        return msgspec.structs.replace(asked, interface=msgspec.structs.replace(asked.interface, addresses=[address]))

    def _plan(
        self, uid: str, allocation: ClaimedDevice, link: str, name: str, parameters: NetworkParameters
    ) -> InterfacePlan:
        return InterfacePlan(
            link=link,
            name=name,
            namespace=_namespace(uid, allocation),
            addresses=tuple(parameters.interface.addresses),
            routes=tuple(
                {"destination": one.destination, "gateway": one.gateway, "source": one.source}
                for one in parameters.routes
            ),
            mtu=parameters.interface.mtu,
            mac=parameters.interface.mac,
            report="" if self.directory is None else str(self.directory.absolute() / REPORT_SOCKET),
        )

    async def _found(self) -> dict[str, tuple[str, Device]]:
        return host_devices(self.config, await self._ip.links(), await self._ip.routes(), self._sysfs)

    async def _host_link(self, allocation: ClaimedDevice) -> str:
        found = (await self._found()).get(allocation.device)
        if found is None:
            raise DriverError(f"there is no interface of the host that is {allocation.device}")
        # From now on it may be in a container, where the host does not see it.
        self._moved[allocation.device] = found
        return found[0]

    async def _state_of(self, link: str) -> dict[str, Any]:
        """Return the state of an interface, to restore it later."""
        found = await self._ip.link(link)
        addresses = [
            f"{one['local']}/{one['prefixlen']}" for one in found.get("addr_info", ()) if one.get("scope") == "global"
        ]
        routes = [
            {key: str(route[key]) for key in ("dst", "gateway", "prefsrc") if route.get(key)}
            for route in await self._ip.routes(link)
            if route.get("protocol") != "kernel"
        ]
        return {
            "address": str(found.get("address", "")),
            "mtu": int(found.get("mtu", 0)),
            "up": "UP" in found.get("flags", ()),
            "addresses": addresses,
            "routes": routes,
        }

    async def _make(self, virtual: VirtualLink, link: str) -> dict[str, Any]:
        """Create an interface, unless an earlier attempt has. Return its status entry."""
        parent = ("link", virtual.parent) if virtual.kind in WITH_PARENT else ()
        peer = ("peer", "name", _peer(link)) if virtual.kind == "veth" else ()
        words = ("link", "add", *parent, "name", link, "type", virtual.kind, *_MODES[virtual.kind], *peer)
        try:
            await self._ip.run(*words)
        except LinkError as error:
            # An earlier attempt was interrupted after this step; preparing is idempotent.
            if "File exists" not in str(error):
                raise
        if virtual.kind == "veth":
            await self._ip.run("link", "set", "dev", _peer(link), "up")
        return {"address": str((await self._ip.link(link)).get("address", ""))}

    async def _give_back(self, device: PreparedDeviceRecord) -> None:
        memory = device.memory
        link, namespace = str(memory["link"]), str(memory["namespace"])
        if memory["made"]:
            await self._ip.try_to("link", "delete", "dev", str(memory["name"]), namespace=namespace)
            await self._ip.try_to("link", "delete", "dev", link)
        # A state is restored only if the interface really left the host: otherwise changes by the administrator would
        # be undone.
        elif await self._ip.take_back(str(memory["name"]), namespace, link) or await self._is_down(link, memory):
            await self._restore(link, memory)
        await self._ip.try_to("netns", "delete", namespace)

    async def _is_down(self, link: str, memory: Mapping[str, Any]) -> bool:
        """Return True if the kernel has brought the interface back by itself, as it does when a namespace ends."""
        found = [one for one in await self._ip.links() if one["ifname"] == link]
        return bool(found) and bool(memory["up"]) and "UP" not in found[0].get("flags", ())

    async def _restore(self, link: str, memory: Mapping[str, Any]) -> None:
        await self._ip.run("link", "set", "dev", link, "address", str(memory["address"]), "mtu", str(memory["mtu"]))
        # Addresses of the pod must not stay on the host.
        await self._ip.run("address", "flush", "dev", link, "scope", "global")
        for address in memory["addresses"]:
            await self._ip.run("address", "replace", str(address), "dev", link)
        if memory["up"]:
            await self._ip.run("link", "set", "dev", link, "up")
        # After the interface is up: the kernel refuses routes through one that is down.
        for route in memory["routes"]:
            via = ("via", str(route["gateway"])) if "gateway" in route else ()
            source = ("src", str(route["prefsrc"])) if "prefsrc" in route else ()
            await self._ip.run("route", "replace", str(route["dst"]), *via, *source, "dev", link)


def _namespace(uid: str, device: ClaimedDevice | PreparedDeviceRecord) -> str:
    """Return the name that the network namespace of the claim's pod gets."""
    return f"dra-{_digest(uid, device.device, device.share_id)}"


def _hook(plan: InterfacePlan) -> Hook:
    return Hook(
        hook_name="createRuntime",
        path=sys.executable,
        args=(sys.executable, "-m", "cathedra.drivers.hooks.netns", plan.to_json()),
        # The runtime gives hooks an empty environment; ``ip`` has to be found.
        env=(f"PATH={os.defpath}:/usr/sbin:/sbin",),
    )


def _made_name(uid: str, device: ClaimedDevice | PreparedDeviceRecord) -> str:
    """Return the name on the host of an interface that is made; it follows from the claim, so that a retry finds it."""
    return f"nd{_digest(uid, device.device, device.share_id)}"


def _peer(link: str) -> str:
    return f"nh{link.removeprefix('nd')}"


def _digest(uid: str, device: str, share_id: str | None) -> str:
    return hashlib.sha256(f"{uid}/{device}/{share_id or ''}".encode()).hexdigest()[:12]


_NOT_THERE: Final = ("does not exist", "Cannot find device", "No such")


class LinkError(DriverError):
    """The kernel refuses; the text is that of ``ip``."""


class IpCommand:
    """Calls of ``ip``, in this network namespace or in one with a name."""

    async def run(self, *words: str, namespace: str = "") -> str:
        """Run one command. Return its output.

        Raises:
            LinkError: it failed, or is not installed.
        """
        command = ("ip", *(("-n", namespace) if namespace else ()), *words)
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
        except OSError as error:
            raise LinkError(f"ip: {error.strerror}") from error
        out, err = await process.communicate()
        if process.returncode != 0:
            raise LinkError(f"{' '.join(command)}: {err.decode(errors='replace').strip()}")
        return out.decode(errors="replace")

    async def try_to(self, *words: str, namespace: str = "") -> bool:
        """Run one command whose object may be gone. Return True if it existed.

        Raises:
            LinkError: it failed for another reason.
        """
        try:
            await self.run(*words, namespace=namespace)
        except LinkError as error:
            if any(text in str(error) for text in _NOT_THERE):
                return False
            raise
        return True

    async def links(self, namespace: str = "") -> list[Mapping[str, Any]]:
        """Return all interfaces of a network with their addresses, as ``ip -json -details address`` has them."""
        words = ("-json", "-details", "address", "show")
        found: list[Mapping[str, Any]] = json.loads(await self.run(*words, namespace=namespace) or "[]")
        return [link for link in found if link.get("ifname")]

    async def link(self, name: str) -> Mapping[str, Any]:
        """Return one interface.

        Raises:
            LinkError: there is none of that name.
        """
        for found in await self.links():
            if found["ifname"] == name:
                return found
        raise LinkError(f"there is no interface {name} in the host's network")

    async def link_in(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return one interface of a named network namespace; None if either does not exist."""
        try:
            found = await self.links(namespace)
        except LinkError as error:
            if any(text in str(error) for text in _NOT_THERE):
                return None
            raise
        return next((one for one in found if one["ifname"] == name), None)

    async def routes(self, name: str = "") -> list[Mapping[str, Any]]:
        """Return the routes of both families over one interface, or over all."""
        found: list[Mapping[str, Any]] = []
        for family in ("-4", "-6"):
            words = ("-json", family, "route", "show", *(("dev", name) if name else ()))
            found += json.loads(await self.run(*words) or "[]")
        return found

    async def take_back(self, name: str, namespace: str, as_name: str) -> bool:
        """Bring an interface from a namespace into this one; answers whether it was there."""
        if not await self.try_to("link", "set", "dev", name, "down", namespace=namespace):
            return False
        words = ("link", "set", "dev", name, "netns", str(os.getpid()), "name", as_name)
        return await self.try_to(*words, namespace=namespace)
