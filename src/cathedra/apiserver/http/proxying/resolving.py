"""Addresses of servers by names that no name server knows: those that their certificates are for."""

from __future__ import annotations

import ipaddress
import socket

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["KnownAddresses"]


class KnownAddresses(AbstractResolver):
    """The addresses of servers by name, as far as they were told; other names are looked up."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._others = aiohttp.ThreadedResolver()

    def remember(self, name: str, address: str) -> None:
        """Connections to ``name`` go to ``address`` from now on."""
        self._known[name] = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The address of a server.

        Raises:
            OSError: its address is a host name that is not known.
        """
        address = self._known.get(host, host)
        try:
            version = ipaddress.ip_address(address).version
        except ValueError:
            return await self._others.resolve(address, port, family)
        found = socket.AF_INET6 if version == 6 else socket.AF_INET
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [ResolveResult(hostname=host, host=address, port=port, family=found, proto=0, flags=flags)]

    async def close(self) -> None:
        """Let go of the look-ups."""
        await self._others.close()
