"""Addresses by names that no name server knows."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from cathedra.apiserver.http.proxying.connections import KnownAddresses


@pytest.mark.parametrize(("address", "family"), [("10.0.0.1", socket.AF_INET), ("fd00::1", socket.AF_INET6)])
async def test_a_name_leads_to_the_address_that_was_told(address: str, family: socket.AddressFamily) -> None:
    names = KnownAddresses()
    names.remember("metrics.kube-system.svc", "10.9.9.9")
    names.remember("metrics.kube-system.svc", address)
    (found,) = await names.resolve("metrics.kube-system.svc", 443)
    assert (found["hostname"], found["host"], found["port"]) == ("metrics.kube-system.svc", address, 443)
    assert found["family"] == family
    await names.close()


async def test_other_names_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    names = KnownAddresses()
    asked: list[str] = []

    async def looked_up(host: str, *_: Any) -> list[Any]:
        asked.append(host)
        return []

    monkeypatch.setattr(names._others, "resolve", looked_up)
    names.remember("n1", "n1.example.com")
    assert await names.resolve("n1") == []
    assert asked == ["n1.example.com"]
