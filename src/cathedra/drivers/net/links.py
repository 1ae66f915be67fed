"""The kernel's network interfaces, through the program ``ip`` (iproute2), which nodes have and which prints JSON."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from cathedra.driver import DriverError

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
        """All interfaces of a network with their addresses, as ``ip -json -details address`` has them."""
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
        """The routes of both families over one interface, or over all."""
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
