"""A kernel with interfaces, as far as `cathedra.drivers.net` speaks to one; and whether the real one may be changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from typing import Any

from cathedra.api.resource import NetworkDeviceData
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.driver.kit import Kit
from cathedra.drivers.net.driver import IpCommand, LinkError

__all__ = ["FakeIp", "told_data", "why_not_real"]

MAC = "02:00:00:00:00:07"


class FakeIp(IpCommand):
    """Interfaces by name; calls are written down."""

    def __init__(self, *links: str) -> None:
        self.calls: list[str] = []
        self.present: dict[str, dict[str, Any]] = {name: self._link(name) for name in links}

    def _link(self, name: str) -> dict[str, Any]:
        address = {"family": "inet", "local": "10.1.0.7", "prefixlen": 24, "scope": "global"}
        return {"ifname": name, "flags": ["UP"], "address": MAC, "mtu": 1500, "addr_info": [address]}

    async def run(self, *words: str, namespace: str = "") -> str:
        if words[:2] == ("-json", "-details"):
            if namespace and namespace not in self.present:
                raise LinkError(f'Cannot open network namespace "{namespace}": No such file or directory')
            return json.dumps([self.present[namespace]] if namespace else list(self.present.values()))
        if words[0] == "-json":
            routes = [{"dst": "10.9.0.0/16", "gateway": "10.1.0.1", "dev": "eth1", "protocol": "static"}]
            return json.dumps(routes if words[1] == "-4" else [])
        self.calls.append(" ".join((*((f"[{namespace}]",) if namespace else ()), *words)))
        if words[:2] == ("link", "add"):
            name = words[words.index("name") + 1]
            if name in self.present:
                raise LinkError("RTNETLINK answers: File exists")
            self.present[name] = self._link(name)
        elif words[:2] == ("link", "delete") and (namespace or self.present.pop(words[3], None) is None):
            raise LinkError(f'Cannot find device "{words[3]}"')
        elif namespace and namespace not in self.present:
            raise LinkError(f'Cannot open network namespace "{namespace}": No such file or directory')
        return ""


async def told_data(kit: Kit, claim: Any) -> NetworkDeviceData:
    """Wait for the interface in the status of the claim, and return it."""
    claims = kit.client.resource(RESOURCECLAIMS, "default")
    async with claims.watch(field_selector=f"metadata.name={claim.name}") as events:
        async for event in events:
            for entry in event.object.status.devices:
                if entry.network_data is not None:
                    return entry.network_data
    raise AssertionError("the watch ended")


@cache
def why_not_real() -> str:
    """Return the reason why this machine's network cannot be used for a test; "" if it can."""
    if os.geteuid() != 0:
        return "interfaces are moved by root only"
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    name = f"probe{os.getpid()}"
    made = subprocess.run(["ip", "link", "add", f"p{os.getpid()}", "type", "veth"], capture_output=True, check=False)
    subprocess.run(["ip", "link", "delete", f"p{os.getpid()}"], capture_output=True, check=False)
    named = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return "" if made.returncode == named.returncode == 0 else "this machine makes no network namespaces or veth pairs"
