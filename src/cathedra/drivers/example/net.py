"""Simulated network cards whose bandwidth is shared by many claims.

A claim requests ingress and egress bandwidth, rounded to what the request policy allows, and may request bursts by
opaque parameters (docs/spec/driver-sdk.md §17.2 and §17.3). The claim's status has interface, addresses and MAC, as
with a driver of real cards.

    apiVersion: net.resource.example.com/v1alpha1
    kind: NetConfig
    bwBurst:
      ingressBurst: 1G
      egressBurst: 1G
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from cathedra.api.quantity import Quantity, QuantityError
from cathedra.api.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
    NetworkDeviceData,
)
from cathedra.driver import Device, DeviceStatus, Pool, Version
from cathedra.driver.claim import ConfigModels
from cathedra.drivers.example.profile import PrepareContext, Site, device_uuid

API_VERSION: Final = "net.resource.example.com/v1alpha1"
_MOST_BYTES: Final = 2**32 - 1
"""Maximum burst, in bytes, that the kernel's traffic control supports."""
_BITS: Final = 8


class BandwidthBurst(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Bits that may pass at once, as quantities or numbers."""

    ingress_burst: int | str = 0
    egress_burst: int | str = 0

    def __post_init__(self) -> None:
        for name, value in (("ingressBurst", self.ingress_burst), ("egressBurst", self.egress_burst)):
            bits = _bits(name, value)
            if not 0 <= bits // _BITS <= _MOST_BYTES:
                raise ValueError(f"{name} must be at most 4 GB, which is {_MOST_BYTES * _BITS} bits, got {value}")


class NetConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The parameters as a whole."""

    bw_burst: BandwidthBurst | None = None


class NetProfile:
    """N cards of 100 Gbit/s in each direction and a hundred virtual functions."""

    family: str = "net"
    configs: ConfigModels = {(API_VERSION, "NetConfig"): NetConfig}
    spells_own_domain: bool = False

    def __init__(self, count: int = 8) -> None:
        self.count = count

    def pool(self, site: Site) -> Pool:
        """Return the cards ``nic-0``, ``nic-1``, …"""
        return Pool(devices=tuple(self._card(site, index) for index in range(self.count)))

    def _card(self, site: Site, index: int) -> Device:
        return Device(
            f"nic-{index}",
            attributes={
                "index": index,
                "uuid": device_uuid(site, "net", index),
                "model": "LATEST-NET-MODEL",
                "driverVersion": Version("1.0.0"),
            },
            capacity={"vfs": _functions(), "ingressBandwidth": _bandwidth(), "egressBandwidth": _bandwidth()},
            multiple_allocations=True,
        )

    def environment(self, context: PrepareContext) -> Mapping[str, str]:
        """Return rates in bits per second, and bursts in bits."""
        allocation = context.allocation
        prefix = f"NET_DEVICE_{_index(allocation.device)}"
        variables: dict[str, str] = {}
        burst = allocation.config(NetConfig).bw_burst or BandwidthBurst()
        for direction, name, bits in (
            ("INGRESS", "ingressBandwidth", _bits("ingressBurst", burst.ingress_burst)),
            ("EGRESS", "egressBandwidth", _bits("egressBurst", burst.egress_burst)),
        ):
            if name in allocation.consumed:
                variables[f"{prefix}_{direction}_RATE"] = str(allocation.consumed[name].value())
            if bits:
                variables[f"{prefix}_{direction}_BURST"] = str(bits)
        return variables

    def status(self, context: PrepareContext) -> DeviceStatus | None:
        """Return the interface of this share, with addresses and a MAC that depend on the share alone."""
        allocation = context.allocation
        digest = hashlib.sha256(f"{context.claim.uid}/{allocation.device}/{allocation.share_id}".encode()).digest()
        mac = ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))
        data = NetworkDeviceData(
            interface_name=f"net{_index(allocation.device)}",
            ips=(f"10.{digest[0]}.{digest[1]}.{digest[2]}/8", f"fd00::{digest[3]:x}:{digest[4]:x}/64"),
            hardware_address=mac,
        )
        rates = {name: str(amount) for name, amount in sorted(allocation.consumed.items())}
        return DeviceStatus(data=rates, network_data=data)


def _bits(name: str, value: int | str) -> int:
    try:
        return Quantity(value).value()
    except QuantityError as error:
        raise ValueError(f"{name}: {value!r}: {error}") from error


def _index(device: str) -> str:
    return device.removeprefix("nic-")


def _bandwidth() -> DeviceCapacity:
    allowed = CapacityRequestPolicyRange(min=Quantity("100M"), max=Quantity("100G"), step=Quantity("1M"))
    policy = CapacityRequestPolicy(default=Quantity("1G"), valid_range=allowed)
    return DeviceCapacity(value=Quantity("100G"), request_policy=policy)


def _functions() -> DeviceCapacity:
    one = Quantity("1")
    return DeviceCapacity(value=Quantity("100"), request_policy=CapacityRequestPolicy(default=one, valid_values=(one,)))
